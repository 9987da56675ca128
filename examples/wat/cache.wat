;; A cache that is always full, and how long it stands still: whatever happens between the ends of two steps shows in
;; the time between them, whoever caused it.
;;
;;   cache [ENTRIES [STEPS [KEEPS [SECONDS]]]]
;;
;; A step replaces the values of 20 entries, drawn at random, and reads those of 20 others. Where KEEPS is 1, nothing is
;; replaced: a new value lives for a moment, and a number of it is written into the old one. Where KEEPS is 2, nothing is
;; allocated: the number is written without a new value, and whatever gaps there are, no collector causes them. Prints
;; the number of steps and the sum of what was read. With SECONDS it ends then, if not after STEPS (0: no such end), and
;; tells the gaps, in nanoseconds by the monotonic clock (W), and of processor time of the thread (C; 0 where WASI has no
;; such clock):
;;
;;   time W C               all of them
;;   largest W C
;;   bucket UPPER W C       how many are at most UPPER long, and longer than the UPPER before
;;   gap START W START C    one of more than 50 us, with the times at which it began
;;   lost N                 such gaps that there was no room for
(module
  (type $value (array (mut i64)))
  (type $entry (struct (field $key i32) (field $version (mut i32)) (field $value (mut (ref $value)))))
  (type $table (array (mut (ref null $entry))))

  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))

  ;; Addresses: 0 I/O vector, 16 time, 24 number and 28 bytes of arguments, 32 their addresses, 512 texts, 1024 the
  ;; arguments, 4096 lines to be written, 8192 and 38400 counts of wall and processor times for each of 3,776 buckets,
  ;; 69632 long gaps, 32 bytes each.
  (memory (export "memory") 66)
  (data (i32.const 512) "steps \nsum \ntime largest bucket gap lost ")

  (global $table (mut (ref $table)) (array.new_fixed $table 0))
  (global $latest (mut (ref null $value)) (ref.null $value))
  (global $state (mut i64) (i64.const 0x9E3779B97F4A7C15))
  (global $sum (mut i64) (i64.const 0))

  ;; xorshift64 (Marsaglia, 2003), scaled to 0 .. ENTRIES.
  (func $any (result (ref $entry))
    (local $x i64)
    (local.set $x (global.get $state))
    (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
    (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
    (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 17))))
    (global.set $state (local.get $x))
    (ref.as_non_null
      (array.get $table (global.get $table)
        (i32.wrap_i64
          (i64.shr_u
            (i64.mul (i64.shr_u (local.get $x) (i64.const 32)) (i64.extend_i32_u (array.len (global.get $table))))
            (i64.const 32))))))

  ;; What a value consists of.
  (func $number_of (param $key i32) (param $version i32) (result i64)
    (i64.add (i64.mul (i64.extend_i32_u (local.get $key)) (i64.const 1000003)) (i64.extend_i32_u (local.get $version))))

  ;; 128 bytes in Legato, with its header.
  (func $new (param $key i32) (param $version i32) (result (ref $value))
    (array.new $value (call $number_of (local.get $key) (local.get $version)) (i32.const 14)))

  (func $fill (param $entries i32)
    (local $key i32)
    (global.set $table (array.new_default $table (local.get $entries)))
    (loop $more
      (array.set $table (global.get $table) (local.get $key)
        (struct.new $entry (local.get $key) (i32.const 0) (call $new (local.get $key) (i32.const 0))))
      (local.set $key (i32.add (local.get $key) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $key) (local.get $entries)))))

  (func $step (param $keeps i32)
    (local $left i32) (local $version i32) (local $at i32) (local $entry (ref $entry)) (local $value (ref $value))
    (local.set $left (i32.const 20))
    (loop $more
      (local.set $entry (call $any))
      (local.set $version (i32.add (struct.get $entry $version (local.get $entry)) (i32.const 1)))
      (struct.set $entry $version (local.get $entry) (local.get $version))
      (local.set $at (i32.and (local.get $version) (i32.const 7)))
      (if (i32.eq (local.get $keeps) (i32.const 2))
        (then
          (array.set $value (struct.get $entry $value (local.get $entry)) (local.get $at)
            (call $number_of (struct.get $entry $key (local.get $entry)) (local.get $version))))
        (else
          (local.set $value (call $new (struct.get $entry $key (local.get $entry)) (local.get $version)))
          (if (local.get $keeps)
            (then
              (global.set $latest (local.get $value))
              (array.set $value (struct.get $entry $value (local.get $entry)) (local.get $at)
                (array.get $value (ref.as_non_null (global.get $latest)) (local.get $at))))
            (else (struct.set $entry $value (local.get $entry) (local.get $value))))))
      (global.set $sum
        (i64.add (i64.rotl (global.get $sum) (i64.const 1))
          (array.get $value (struct.get $entry $value (call $any)) (local.get $at))))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $more (local.get $left))))

  (func (export "_start")
    (local $steps i64) (local $limit i64) (local $keeps i32) (local $seconds i64)
    (call $fetch_arguments)
    (call $fill (i32.wrap_i64 (call $argument (i32.const 1) (i64.const 500))))
    (local.set $limit (call $argument (i32.const 2) (i64.const 200)))
    (local.set $keeps (i32.wrap_i64 (call $argument (i32.const 3) (i64.const 0))))
    (local.set $seconds (call $argument (i32.const 4) (i64.const 0)))
    (if (i64.eqz (local.get $seconds))
      (then
        (loop $more
          (call $step (local.get $keeps))
          (local.set $steps (i64.add (local.get $steps) (i64.const 1)))
          (br_if $more (i64.lt_u (local.get $steps) (local.get $limit)))))
      (else (local.set $steps (call $watch (local.get $limit) (local.get $keeps) (local.get $seconds)))))
    (call $text (i32.const 512) (i32.const 6))
    (call $number (local.get $steps))
    (call $text (i32.const 518) (i32.const 5))
    (call $number (global.get $sum))
    (call $byte (i32.const 10))
    (if (i64.ne (local.get $seconds) (i64.const 0)) (then (call $tell)))
    (call $flush))

  ;; ---- Gaps

  (global $wall_start (mut i64) (i64.const 0))
  (global $wall (mut i64) (i64.const 0))
  (global $cpu_start (mut i64) (i64.const 0))
  (global $cpu (mut i64) (i64.const 0))
  (global $largest_wall (mut i64) (i64.const 0))
  (global $largest_cpu (mut i64) (i64.const 0))
  (global $logged (mut i32) (i32.const 0))
  (global $lost (mut i64) (i64.const 0))

  ;; A clock of WASI in nanoseconds: 1 is monotonic, 3 the thread's processor time. 0 where there is none.
  (func $now (param $clock i32) (result i64)
    (if (call $clock_time_get (local.get $clock) (i64.const 1) (i32.const 16)) (then (return (i64.const 0))))
    (i64.load (i32.const 16)))

  ;; Steps until there have been $limit or $seconds are over; how many.
  (func $watch (param $limit i64) (param $keeps i32) (param $seconds i64) (result i64)
    (local $steps i64) (local $end i64)
    (global.set $cpu_start (call $now (i32.const 3)))
    (global.set $cpu (global.get $cpu_start))
    (global.set $wall_start (call $now (i32.const 1)))
    (global.set $wall (global.get $wall_start))
    (local.set $end (i64.add (global.get $wall) (i64.mul (local.get $seconds) (i64.const 1000000000))))
    (loop $more
      (call $step (local.get $keeps))
      (call $mark (call $now (i32.const 1)) (call $now (i32.const 3)))
      (local.set $steps (i64.add (local.get $steps) (i64.const 1)))
      (br_if $more
        (i32.and (i64.ne (local.get $steps) (local.get $limit)) (i64.lt_u (global.get $wall) (local.get $end)))))
    (local.get $steps))

  ;; Records the gap that ends now.
  (func $mark (param $wall i64) (param $cpu i64)
    (local $wall_gap i64) (local $cpu_gap i64) (local $at i32)
    (local.set $wall_gap (i64.sub (local.get $wall) (global.get $wall)))
    (local.set $cpu_gap (i64.sub (local.get $cpu) (global.get $cpu)))
    (call $count (i32.const 8192) (local.get $wall_gap))
    (call $count (i32.const 38400) (local.get $cpu_gap))
    (if (i64.gt_u (local.get $wall_gap) (global.get $largest_wall))
      (then (global.set $largest_wall (local.get $wall_gap))))
    (if (i64.gt_u (local.get $cpu_gap) (global.get $largest_cpu))
      (then (global.set $largest_cpu (local.get $cpu_gap))))
    (if (i64.gt_u (local.get $wall_gap) (i64.const 50000))
      (then
        (if (i32.lt_u (global.get $logged) (i32.const 131072))
          (then
            (local.set $at (i32.add (i32.const 69632) (i32.shl (global.get $logged) (i32.const 5))))
            (i64.store (local.get $at) (i64.sub (global.get $wall) (global.get $wall_start)))
            (i64.store offset=8 (local.get $at) (local.get $wall_gap))
            (i64.store offset=16 (local.get $at) (i64.sub (global.get $cpu) (global.get $cpu_start)))
            (i64.store offset=24 (local.get $at) (local.get $cpu_gap))
            (global.set $logged (i32.add (global.get $logged) (i32.const 1))))
          (else (global.set $lost (i64.add (global.get $lost) (i64.const 1)))))))
    (global.set $wall (local.get $wall))
    (global.set $cpu (local.get $cpu)))

  (func $count (param $counts i32) (param $gap i64)
    (local $at i32)
    (local.set $at (i32.add (local.get $counts) (i32.shl (call $bucket (local.get $gap)) (i32.const 3))))
    (i64.store (local.get $at) (i64.add (i64.load (local.get $at)) (i64.const 1))))

  ;; Buckets are one nanosecond wide up to 128, then there are 64 between each power of two and the next: a gap is known
  ;; to one part in 64.
  (func $bucket (export "bucket") (param $gap i64) (result i32)
    (local $shift i64)
    (if (i64.lt_u (local.get $gap) (i64.const 64)) (then (return (i32.wrap_i64 (local.get $gap)))))
    (local.set $shift (i64.sub (i64.const 57) (i64.clz (local.get $gap))))
    (i32.wrap_i64
      (i64.add (i64.shl (local.get $shift) (i64.const 6)) (i64.shr_u (local.get $gap) (local.get $shift)))))

  ;; The longest gap of a bucket.
  (func $upper (export "upper") (param $bucket i32) (result i64)
    (local $shift i64)
    (if (i32.lt_u (local.get $bucket) (i32.const 128)) (then (return (i64.extend_i32_u (local.get $bucket)))))
    (local.set $shift (i64.extend_i32_u (i32.sub (i32.shr_u (local.get $bucket) (i32.const 6)) (i32.const 1))))
    (i64.sub
      (i64.shl
        (i64.add (i64.extend_i32_u (i32.and (local.get $bucket) (i32.const 63))) (i64.const 65))
        (local.get $shift))
      (i64.const 1)))

  (func $tell
    (local $at i32) (local $end i32)
    (call $text (i32.const 524) (i32.const 5))
    (call $pair (i64.sub (global.get $wall) (global.get $wall_start)) (i64.sub (global.get $cpu) (global.get $cpu_start)))
    (call $text (i32.const 529) (i32.const 8))
    (call $pair (global.get $largest_wall) (global.get $largest_cpu))
    (loop $buckets
      (if (i64.ne
            (i64.or
              (i64.load offset=8192 (i32.shl (local.get $at) (i32.const 3)))
              (i64.load offset=38400 (i32.shl (local.get $at) (i32.const 3))))
            (i64.const 0))
        (then
          (call $text (i32.const 537) (i32.const 7))
          (call $number (call $upper (local.get $at)))
          (call $byte (i32.const 32))
          (call $pair
            (i64.load offset=8192 (i32.shl (local.get $at) (i32.const 3)))
            (i64.load offset=38400 (i32.shl (local.get $at) (i32.const 3))))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $buckets (i32.lt_u (local.get $at) (i32.const 3776))))
    (local.set $at (i32.const 69632))
    (local.set $end (i32.add (local.get $at) (i32.shl (global.get $logged) (i32.const 5))))
    (block $done
      (loop $gaps
        (br_if $done (i32.eq (local.get $at) (local.get $end)))
        (call $text (i32.const 544) (i32.const 4))
        (call $number (i64.load (local.get $at)))
        (call $byte (i32.const 32))
        (call $number (i64.load offset=8 (local.get $at)))
        (call $byte (i32.const 32))
        (call $pair (i64.load offset=16 (local.get $at)) (i64.load offset=24 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 32)))
        (br $gaps)))
    (call $text (i32.const 548) (i32.const 5))
    (call $number (global.get $lost))
    (call $byte (i32.const 10)))

  ;; ---- Arguments and output

  (func $fetch_arguments
    (drop (call $args_sizes_get (i32.const 24) (i32.const 28)))
    (if (i32.or (i32.gt_u (i32.load (i32.const 24)) (i32.const 100)) (i32.gt_u (i32.load (i32.const 28)) (i32.const 3072)))
      (then (unreachable)))
    (drop (call $args_get (i32.const 32) (i32.const 1024))))

  ;; A number on the command line, or what stands for it.
  (func $argument (param $index i32) (param $missing i64) (result i64)
    (local $at i32) (local $value i64)
    (if (i32.ge_u (local.get $index) (i32.load (i32.const 24))) (then (return (local.get $missing))))
    (local.set $at (i32.load offset=32 (i32.shl (local.get $index) (i32.const 2))))
    (loop $more
      (if (i32.load8_u (local.get $at))
        (then
          (local.set $value
            (i64.add (i64.mul (local.get $value) (i64.const 10))
              (i64.extend_i32_u (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $more))))
    (local.get $value))

  (global $length (mut i32) (i32.const 0))

  (func $byte (param $byte i32)
    (if (i32.eq (global.get $length) (i32.const 4096)) (then (call $flush)))
    (i32.store8 offset=4096 (global.get $length) (local.get $byte))
    (global.set $length (i32.add (global.get $length) (i32.const 1))))

  (func $text (param $at i32) (param $length i32)
    (loop $more
      (call $byte (i32.load8_u (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br_if $more (local.get $length))))

  (func $number (param $number i64)
    (if (i64.ge_u (local.get $number) (i64.const 10))
      (then (call $number (i64.div_u (local.get $number) (i64.const 10)))))
    (call $byte (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 10))))))

  ;; Two numbers, and the end of the line.
  (func $pair (param $a i64) (param $b i64)
    (call $number (local.get $a))
    (call $byte (i32.const 32))
    (call $number (local.get $b))
    (call $byte (i32.const 10)))

  (func $flush
    (i32.store (i32.const 0) (i32.const 4096))
    (i32.store (i32.const 4) (global.get $length))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (global.set $length (i32.const 0)))
)
