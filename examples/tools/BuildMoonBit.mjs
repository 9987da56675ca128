// Compiles MoonBit examples: node BuildMoonBit.mjs SOURCES OUT CACHE NAME...
//
// Writes OUT/NAME.wasm (target wasm-gc) and OUT/NAME.expected: what the same program prints when the same compiler makes
// JavaScript of it and Node.js runs that. A program is a folder SOURCES/NAME of .mbt files, its entry `main`, and may
// have `pub fn sized(Int)`, which is exported.
//
// Compiler and core library come from one npm package, made for browsers: the compiler is a script for a worker, the
// core library's sources are strings of the package's module. The core library is compiled once, and kept in CACHE.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import process from 'node:process';
import { Script } from 'node:vm';
import { gunzipSync } from 'node:zlib';

const PACKAGE = '@moonbit/moonpad-monaco';
const VERSION = '0.1.202602255';
const CORE = 'moonbitlang/core';

const [sources, out, cache, ...names] = process.argv.slice(2);
const folder = join(cache, `moonbit-${VERSION}`);

/** Writes a file so that it is there as a whole or not at all. */
function write(file, content) {
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
}

/** Fetches the npm package, unless it is there. */
function fetchPackage() {
  if (existsSync(join(folder, 'dist'))) return;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, 'npm-'));
  try {
    const quietly = { stdio: ['ignore', 'ignore', 'inherit'] };
    execFileSync('npm', ['pack', '--silent', '--pack-destination', work, `${PACKAGE}@${VERSION}`], quietly);
    execFileSync('tar', ['-xzf', join(work, readdirSync(work)[0]), '-C', work], quietly);
    rmSync(folder, { recursive: true, force: true });
    renameSync(join(work, 'package'), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The package's files by path below /lib/core: the module assigns each to `i["PATH"]`, from a string in base 64. */
function coreFiles() {
  const text = readFileSync(join(folder, 'dist/moonpad-monaco.js'), 'utf8');
  const strings = new Map();
  for (const [, name, value] of text.matchAll(/([\w$]+) = \w+\("([A-Za-z0-9+/=]*)"\)/g)) strings.set(name, value);
  const files = new Map();
  for (const [, path, name] of text.matchAll(/i\["\/lib\/core\/([^"]+)"\] = ([\w$]+);/g)) {
    files.set(path, Buffer.from(strings.get(name), 'base64'));
  }
  return files;
}

/**
 * Loads the worker's script; returns a function that calls what the compiler offers. Calls are Comlink's messages. Each
 * has a compiler of its own, for one remembers what it found wrong before.
 */
function loadCompiler() {
  const file = join(folder, 'dist/moonc-worker.js');
  const script = new Script(readFileSync(file, 'utf8'), { filename: file });
  // It must take this for a browser: what it has to say is in its answers.
  delete globalThis.process;
  globalThis.console = { log() {}, warn() {}, error() {} };
  return (name, parameters) =>
    new Promise((resolve, reject) => {
      globalThis.addEventListener = (type, listener) => {
        if (type !== 'message') return;
        const argumentList = [{ type: 'RAW', value: parameters }];
        queueMicrotask(() => listener({ origin: '', data: { id: '0', type: 'APPLY', path: [name], argumentList } }));
      };
      globalThis.postMessage = ({ type, value }) => (type === 'RAW' ? resolve(value) : reject(value.value));
      script.runInThisContext();
    });
}

/** Compiles one package; throws what the compiler says against it. */
async function buildPackage(compiler, parameters) {
  const { core, mi, diagnostics } = await compiler('buildPackage', {
    miFiles: [],
    indirectImportMiFiles: [],
    stdMiFiles: [],
    errorFormat: 'human',
    enableValueTracing: false,
    noOpt: false,
    ...parameters,
  });
  // A warning may count as an error: then it is called both.
  const isError = (text) => text.includes('Error') || !text.includes('Warning');
  if (!core) throw new Error(diagnostics.filter(isError).join('\n'));
  return { core: Buffer.from(core), mi: Buffer.from(mi) };
}

/** The core library's packages, each behind those that it imports. */
function inOrder(packages) {
  const byName = new Map(packages.map((entry) => [entry.rel, entry]));
  const order = new Set();
  const visit = (entry) => {
    if (order.has(entry)) return;
    for (const name of imports(entry).keys()) visit(byName.get(name));
    order.add(entry);
  };
  packages.forEach(visit);
  return [...order];
}

/** What a package imports by itself: short names and their aliases. */
function imports(entry) {
  return new Map(entry.deps.map(({ path, alias }) => [path.slice(CORE.length + 1), alias]));
}

/** The core library for Wasm GC, compiled unless it is in the cache: interfaces (mi) and code (core) by package. */
async function coreForWasm(compiler, files) {
  const order = inOrder(JSON.parse(files.get('_build/packages.json')).packages);
  const built = new Map();
  const all = new Map();
  for (const entry of order) {
    const name = entry.rel;
    const direct = imports(entry);
    // The compiler wants to see all that a package rests upon.
    const known = new Set([...direct.keys()].flatMap((other) => [other, ...all.get(other)]));
    all.set(name, known);
    const kept = join(folder, 'wasm-gc', name.replaceAll('/', '.'));
    if (!existsSync(`${kept}.core`)) {
      mkdirSync(join(folder, 'wasm-gc'), { recursive: true });
      const isOurs = ({ backend, optlevel }) => backend.includes('WasmGC') && optlevel.includes('Release');
      const paths = Object.keys(entry.files).filter((path) => isOurs(entry.files[path]));
      const { core, mi } = await buildPackage(compiler, {
        mbtFiles: paths.map((path) => [basename(path), files.get(path.split('/lib/core/')[1]).toString()]),
        miFiles: [...known].map((other) => [`/lib/core/${other}:${direct.get(other) ?? other}`, built.get(other).mi]),
        target: 'wasm-gc',
        pkg: `${CORE}/${name}`,
        pkgSources: [`${CORE}/${name}:${entry['root-path']}`],
        isMain: false,
      });
      write(`${kept}.mi`, mi);
      write(`${kept}.core`, core);
    }
    built.set(name, { core: readFileSync(`${kept}.core`), mi: readFileSync(`${kept}.mi`) });
  }
  return { interfaces: new Map([...built].map(([name, { mi }]) => [name, mi])), code: [...built.values()].map(({ core }) => core) };
}

/** The core library for JavaScript, which the package brings compiled. */
function coreForJavaScript(files) {
  const prefix = '_build/js/release/bundle/';
  const interfaces = new Map();
  for (const [path, content] of files) {
    if (path.startsWith(prefix) && path.endsWith('.mi')) interfaces.set(path.slice(prefix.length, path.lastIndexOf('/')), content);
  }
  return { interfaces, code: [gunzipSync(files.get(`${prefix}core.core.gz`))] };
}

/** Compiles and links a program. */
async function buildProgram(compiler, name, target, library) {
  const files = readdirSync(join(sources, name)).filter((file) => file.endsWith('.mbt')).sort();
  const mbtFiles = files.map((file) => [file, readFileSync(join(sources, name, file), 'utf8')]);
  const pkgSources = [`examples/${name}:${name}:/`];
  const { core } = await buildPackage(compiler, {
    mbtFiles,
    stdMiFiles: [...library.interfaces].map(([path, mi]) => [`/lib/core/${path}:${path}`, mi]),
    target,
    pkg: `examples/${name}`,
    pkgSources,
    isMain: true,
  });
  const isSized = mbtFiles.some(([, text]) => text.includes('pub fn sized('));
  const { result } = await compiler('linkCore', {
    coreFiles: [...library.code, core],
    main: `examples/${name}`,
    pkgSources: [`${CORE}:moonbit-core:/lib/core`, ...pkgSources],
    target,
    exportedFunctions: isSized ? ['sized'] : [],
    outputFormat: 'wasm',
    testMode: false,
    debug: false,
    noOpt: false,
    sourceMap: false,
    sources: {},
    stopOnMain: false,
  });
  return result;
}

const say = (text) => process.stderr.write(`${text}\n`);

fetchPackage();
const files = coreFiles();
const compiler = loadCompiler();
const libraries = { wasm: await coreForWasm(compiler, files), js: coreForJavaScript(files) };
let failed = false;
for (const name of names) {
  try {
    const wasm = await buildProgram(compiler, name, 'wasm-gc', libraries.wasm);
    const script = join(out, `${name}.mjs`);
    try {
      writeFileSync(script, await buildProgram(compiler, name, 'js', libraries.js));
      const output = execFileSync(process.execPath, ['--stack-size=4000', script], { maxBuffer: 1 << 28 });
      write(join(out, `${name}.expected`), output);
    } finally {
      rmSync(script, { force: true });
    }
    write(join(out, `${name}.wasm`), wasm);
    say(`moonbit/${name}: ${wasm.length} bytes`);
  } catch (error) {
    say(`moonbit/${name}: ${error.message}`);
    failed = true;
  }
}
process.exitCode = failed ? 1 : 0;
