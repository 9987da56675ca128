// Runs a program in V8 as the lab's other workers do in their engines: node node.mjs [--gc] RUNS FILE [ARGS...]
//
// Prints one JSON document: how long compilation and each run took, what the program printed, the process's peak
// resident memory after the first run and, with --gc, its collections. V8 compiles a function when it is first called,
// and again, with optimisation, while it runs: the first run has all of that in it, the second hardly any.
import { readFileSync } from 'node:fs';
import { PerformanceObserver, constants, performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';

// Node 24 has the standard exception handling, which Kotlin's modules use, behind a flag.
if (process.versions.node.startsWith('24.')) setFlagsFromString('--experimental-wasm-exnref');

const options = process.argv.slice(2);
const observesCollections = options[0] === '--gc';
if (observesCollections) options.shift();
const [runs, file, ...rest] = options;
const programArguments = ['program', ...rest];

/** Seconds by the clock and of user CPU over all threads, with the result. */
function timed(work) {
  const user = process.cpuUsage().user;
  const start = performance.now();
  const result = work();
  const wall = (performance.now() - start) / 1e3;
  return [{ wall, user: (process.cpuUsage().user - user) / 1e6 }, result];
}

/** Thrown by proc_exit to end the program. */
class Exit {
  constructor(code) {
    this.code = code;
  }
}

/** What the program printed: bytes through WASI, UTF-16 units through TeaVM's console or MoonBit's. */
class Output {
  chunks = [];
  units = [];

  text() {
    return Buffer.concat(this.chunks).toString('utf8') + this.units.map((unit) => String.fromCharCode(unit)).join('');
  }
}

const SUCCESS = 0;
const BAD_FILE = 8;
const INVALID = 28;

/** The part of WASI preview 1 that the lab gives to every engine. `memory` yields the program's memory. */
function wasi(memory, output) {
  // Made anew only when the memory has grown: a program that often looks at the clock shall leave no garbage.
  let latest = new DataView(new ArrayBuffer(0));
  const view = () => {
    const { buffer } = memory();
    if (latest.buffer !== buffer) latest = new DataView(buffer);
    return latest;
  };
  const encoded = programArguments.map((argument) => Buffer.from(argument + '\0'));
  return {
    fd_write(file, vectors, count, written) {
      if (file !== 1 && file !== 2) return BAD_FILE;
      let total = 0;
      for (let i = 0; i < count; i++) {
        const start = view().getUint32(vectors + 8 * i, true);
        const length = view().getUint32(vectors + 8 * i + 4, true);
        output.chunks.push(Buffer.from(new Uint8Array(memory().buffer, start, length)));
        total += length;
      }
      view().setUint32(written, total, true);
      return SUCCESS;
    },
    random_get(start, length) {
      new Uint8Array(memory().buffer, start, length).fill(42);
      return SUCCESS;
    },
    clock_time_get(clock, precision, result) {
      // Processor time is told in steps that are too coarse.
      if (clock > 1) return INVALID;
      const milliseconds = clock === 0 ? performance.timeOrigin + performance.now() : performance.now();
      const nanoseconds = Math.round(milliseconds * 1e6);
      view().setUint32(result, nanoseconds % 2 ** 32, true);
      view().setUint32(result + 4, nanoseconds / 2 ** 32, true);
      return SUCCESS;
    },
    args_sizes_get(count, bytes) {
      view().setUint32(count, encoded.length, true);
      view().setUint32(bytes, encoded.reduce((sum, argument) => sum + argument.length, 0), true);
      return SUCCESS;
    },
    args_get(pointers, bytes) {
      for (const [i, argument] of encoded.entries()) {
        view().setUint32(pointers + 4 * i, bytes, true);
        new Uint8Array(memory().buffer).set(argument, bytes);
        bytes += argument.length;
      }
      return SUCCESS;
    },
    environ_sizes_get(count, bytes) {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return SUCCESS;
    },
    environ_get: () => SUCCESS,
    poll_oneoff(subscriptions, events, count, occurred) {
      // Programs here wait for clocks alone: the first of them rings.
      let first = { at: -1, nanoseconds: Infinity };
      for (let at = subscriptions; at < subscriptions + 48 * count; at += 48) {
        if (view().getUint8(at + 8) !== 0) return INVALID;
        const isAbsolute = view().getUint16(at + 40, true) & 1;
        const now = view().getUint32(at + 16, true) === 0 ? performance.timeOrigin + performance.now() : performance.now();
        const nanoseconds = Number(view().getBigUint64(at + 24, true)) - (isAbsolute ? now * 1e6 : 0);
        if (nanoseconds < first.nanoseconds) first = { at, nanoseconds };
      }
      if (first.at < 0) return INVALID;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(first.nanoseconds, 0) / 1e6);
      new Uint8Array(memory().buffer, events, 32).fill(0);
      view().setBigUint64(events, view().getBigUint64(first.at, true), true);
      view().setUint32(occurred, 1, true);
      return SUCCESS;
    },
    proc_exit(code) {
      throw new Exit(code);
    },
  };
}

const PAGE = 65536;
/** Linear memory of a TeaVM program, in pages: what its modules ask for. */
const TEAVM_PAGES = { initial: 33, maximum: 32768 };
/** Where the heap in that memory begins, in bytes: after the static data of every program that the lab runs. */
const TEAVM_HEAP_OFFSET = 1 << 20;

/** The host of a Java program compiled by TeaVM. */
function teavm(output) {
  const constant = (value) => new WebAssembly.Global({ value: 'i32', mutable: false }, value);
  return {
    env: { memory: new WebAssembly.Memory(TEAVM_PAGES) },
    teavmMemory: {
      notifyHeapResized() {},
      heapOffset: constant(TEAVM_HEAP_OFFSET),
      maxSize: constant(TEAVM_PAGES.maximum * PAGE - 1),
    },
    teavmConsole: {
      putcharStdout: (unit) => output.units.push(unit),
      putcharStderr: (unit) => output.units.push(unit),
    },
    teavmDate: { currentTimeMillis: () => Date.now() },
    teavmMath: Math,
    teavm: {
      createWeakRef: (target) => new WeakRef(target),
      deref: (reference) => reference.deref() ?? null,
    },
  };
}

/** When the program was first entered, in milliseconds of Node's clock. */
let firstCall = NaN;

function run(module) {
  const output = new Output();
  let instance;
  const isTeaVm = WebAssembly.Module.imports(module).some((entry) => entry.module === 'teavmMemory');
  const imports = isTeaVm
    ? teavm(output)
    : {
        wasi_snapshot_preview1: wasi(() => instance.exports.memory, output),
        spectest: { print_char: (unit) => output.units.push(unit) },
      };
  const [instantiation] = timed(() => {
    instance = new WebAssembly.Instance(module, imports);
  });
  if (Number.isNaN(firstCall)) firstCall = performance.now();
  const [time] = timed(() => {
    try {
      if (instance.exports.sized && rest.length > 0) instance.exports.sized(Number(rest[0]));
      else if (isTeaVm) instance.exports.run();
      else instance.exports._start();
    } catch (error) {
      if (!(error instanceof Exit) || error.code !== 0) throw error;
    }
  });
  return { instantiation, run: time, output: output.text() };
}

/** Peak resident memory in bytes. Not getrusage's: that begins with what the parent process had. */
function peakResident() {
  const line = /^VmHWM:\s*(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return line ? Number(line[1]) * 1024 : null;
}

const KINDS = new Map([
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weak'],
]);
const pauses = [];
const observe = (list) => {
  for (const entry of list.getEntries())
    pauses.push({
      kind: KINDS.get(entry.detail.kind) ?? 'other',
      seconds: entry.duration / 1e3,
      at: (entry.startTime - firstCall) / 1e3,
    });
};
const observer = new PerformanceObserver(observe);
if (observesCollections) observer.observe({ entryTypes: ['gc'] });

const [compilation, module] = timed(() => new WebAssembly.Module(readFileSync(file)));
const first = run(module);
const peak = peakResident();
const results = [first];
while (results.length < Number(runs)) {
  const next = run(module);
  if (next.output !== first.output) throw new Error('the second run prints something else than the first');
  results.push(next);
}
// Node tells an observer of collections between two turns of its loop.
setTimeout(() => {
  const times = results.map(({ instantiation, run }) => ({ instantiation, run }));
  const document = { compilation, runs: times, output: first.output, peak_resident: peak, pauses, live: null };
  process.stdout.write(JSON.stringify(document));
}, observesCollections ? 20 : 0);
