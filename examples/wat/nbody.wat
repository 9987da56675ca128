;; The outer planets around the sun. Prints the energy of the system in billionths before and after; it should hardly
;; change. Linear memory only: from address 1024 each body has 64 bytes, which are x, y, z, its velocity and its mass.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\da\f8\e0\a7\e9\67\39\bf\fb\89\50\fe\ec\d4\6a\bf\72\8a\0b\1f\33\19\f9\3e\de\45\be\c9\3c\bd\43\40") ;; the sun
  (data (i32.const 1088) "\2c\d9\3c\34\a0\5d\13\40\7c\db\1f\c0\ab\90\f2\bf\f0\eb\25\6c\f9\86\ba\bf\bc\cc\93\9b\06\67\e3\3f\9b\94\7d\f5\f2\7e\06\40\15\07\5a\9a\d7\d2\99\bf\d8\33\ab\d9\95\4c\a3\3f") ;; Jupiter
  (data (i32.const 1152) "\67\ca\32\c3\cd\af\20\40\b0\01\de\31\cb\7f\10\40\7c\46\eb\e1\53\d3\d9\bf\4f\77\87\b8\21\2c\f0\bf\13\8f\1f\bf\e9\35\fd\3f\b4\23\11\5f\48\3c\81\3f\37\c6\07\0d\49\1d\87\3f") ;; Saturn
  (data (i32.const 1216) "\cf\d9\a7\ce\ea\c9\29\40\7e\66\26\d6\e8\38\2e\c0\a0\7d\25\be\57\95\cc\bf\ef\1b\91\a9\1c\53\f1\3f\c5\bb\54\3e\7f\cc\eb\3f\7c\3e\f2\fa\6b\2f\86\bf\b3\1e\f4\9c\d2\3d\5c\3f") ;; Uranus
  (data (i32.const 1280) "\2a\57\05\a9\67\c2\2e\40\20\a2\c8\33\58\eb\39\c0\40\e5\ab\93\f3\f1\c6\3f\4a\bc\59\16\b6\54\ef\3f\a3\fb\c4\31\c6\07\e3\3f\f6\65\76\58\88\cb\a1\bf\ac\99\17\53\f3\a8\60\3f") ;; Neptune
  (global $first i32 (i32.const 1024))
  (global $end i32 (i32.const 1344))

  (func $square_of_distance (param $dx f64) (param $dy f64) (param $dz f64) (result f64)
    (f64.add
      (f64.add (f64.mul (local.get $dx) (local.get $dx)) (f64.mul (local.get $dy) (local.get $dy)))
      (f64.mul (local.get $dz) (local.get $dz))))

  ;; A hundredth of a year: first every pair changes its velocities, then everything moves.
  (func $advance
    (local $a i32) (local $b i32) (local $dx f64) (local $dy f64) (local $dz f64) (local $square f64) (local $pull f64)
    (local.set $a (global.get $first))
    (loop $each
      (local.set $b (i32.add (local.get $a) (i32.const 64)))
      (block $paired
        (loop $other
          (br_if $paired (i32.ge_u (local.get $b) (global.get $end)))
          (local.set $dx (f64.sub (f64.load offset=0 (local.get $a)) (f64.load offset=0 (local.get $b))))
          (local.set $dy (f64.sub (f64.load offset=8 (local.get $a)) (f64.load offset=8 (local.get $b))))
          (local.set $dz (f64.sub (f64.load offset=16 (local.get $a)) (f64.load offset=16 (local.get $b))))
          (local.set $square (call $square_of_distance (local.get $dx) (local.get $dy) (local.get $dz)))
          (local.set $pull (f64.div (f64.const 0.01) (f64.mul (local.get $square) (f64.sqrt (local.get $square)))))
          (f64.store offset=24 (local.get $a) (f64.sub (f64.load offset=24 (local.get $a)) (f64.mul (local.get $dx) (f64.mul (f64.load offset=48 (local.get $b)) (local.get $pull)))))
          (f64.store offset=24 (local.get $b) (f64.add (f64.load offset=24 (local.get $b)) (f64.mul (local.get $dx) (f64.mul (f64.load offset=48 (local.get $a)) (local.get $pull)))))
          (f64.store offset=32 (local.get $a) (f64.sub (f64.load offset=32 (local.get $a)) (f64.mul (local.get $dy) (f64.mul (f64.load offset=48 (local.get $b)) (local.get $pull)))))
          (f64.store offset=32 (local.get $b) (f64.add (f64.load offset=32 (local.get $b)) (f64.mul (local.get $dy) (f64.mul (f64.load offset=48 (local.get $a)) (local.get $pull)))))
          (f64.store offset=40 (local.get $a) (f64.sub (f64.load offset=40 (local.get $a)) (f64.mul (local.get $dz) (f64.mul (f64.load offset=48 (local.get $b)) (local.get $pull)))))
          (f64.store offset=40 (local.get $b) (f64.add (f64.load offset=40 (local.get $b)) (f64.mul (local.get $dz) (f64.mul (f64.load offset=48 (local.get $a)) (local.get $pull)))))
          (local.set $b (i32.add (local.get $b) (i32.const 64)))
          (br $other)))
      (local.set $a (i32.add (local.get $a) (i32.const 64)))
      (br_if $each (i32.lt_u (local.get $a) (global.get $end))))
    (local.set $a (global.get $first))
    (loop $each
      (f64.store offset=0 (local.get $a) (f64.add (f64.load offset=0 (local.get $a)) (f64.mul (f64.const 0.01) (f64.load offset=24 (local.get $a)))))
      (f64.store offset=8 (local.get $a) (f64.add (f64.load offset=8 (local.get $a)) (f64.mul (f64.const 0.01) (f64.load offset=32 (local.get $a)))))
      (f64.store offset=16 (local.get $a) (f64.add (f64.load offset=16 (local.get $a)) (f64.mul (f64.const 0.01) (f64.load offset=40 (local.get $a)))))
      (local.set $a (i32.add (local.get $a) (i32.const 64)))
      (br_if $each (i32.lt_u (local.get $a) (global.get $end)))))

  (func $energy (result f64)
    (local $a i32) (local $b i32) (local $dx f64) (local $dy f64) (local $dz f64) (local $sum f64)
    (local.set $a (global.get $first))
    (loop $each
      (local.set $sum (f64.add (local.get $sum)
        (f64.mul (f64.mul (f64.const 0.5) (f64.load offset=48 (local.get $a)))
          (call $square_of_distance (f64.load offset=24 (local.get $a)) (f64.load offset=32 (local.get $a)) (f64.load offset=40 (local.get $a))))))
      (local.set $b (i32.add (local.get $a) (i32.const 64)))
      (block $paired
        (loop $other
          (br_if $paired (i32.ge_u (local.get $b) (global.get $end)))
          (local.set $dx (f64.sub (f64.load offset=0 (local.get $a)) (f64.load offset=0 (local.get $b))))
          (local.set $dy (f64.sub (f64.load offset=8 (local.get $a)) (f64.load offset=8 (local.get $b))))
          (local.set $dz (f64.sub (f64.load offset=16 (local.get $a)) (f64.load offset=16 (local.get $b))))
          (local.set $sum (f64.sub (local.get $sum)
            (f64.div
              (f64.mul (f64.load offset=48 (local.get $a)) (f64.load offset=48 (local.get $b)))
              (f64.sqrt (call $square_of_distance (local.get $dx) (local.get $dy) (local.get $dz))))))
          (local.set $b (i32.add (local.get $b) (i32.const 64)))
          (br $other)))
      (local.set $a (i32.add (local.get $a) (i32.const 64)))
      (br_if $each (i32.lt_u (local.get $a) (global.get $end))))
    (local.get $sum))

  (func $print_energy
    (call $print (i64.trunc_f64_s (f64.nearest (f64.mul (call $energy) (f64.const 1e9))))))

  (func (export "_start")
    (local $steps i32)
    (call $print_energy)
    (local.set $steps (i32.const 10000000))
    (loop $more
      (call $advance)
      (local.set $steps (i32.sub (local.get $steps) (i32.const 1)))
      (br_if $more (local.get $steps)))
    (call $print_energy))

  ;; Prints a number and a newline. The digits are written backwards from address 64; the I/O vector is at address 0.
  (func $print (param $n i64)
    (local $at i32) (local $rest i64)
    (local.set $at (i32.const 64))
    (i32.store8 (local.get $at) (i32.const 10))
    (local.set $rest (select (i64.sub (i64.const 0) (local.get $n)) (local.get $n) (i64.lt_s (local.get $n) (i64.const 0))))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $rest) (i64.const 10)))))
      (local.set $rest (i64.div_u (local.get $rest) (i64.const 10)))
      (br_if $digit (i64.ne (local.get $rest) (i64.const 0))))
    (if (i64.lt_s (local.get $n) (i64.const 0)) (then
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.const 45))))
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.sub (i32.const 65) (local.get $at)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
)
