;; SHA-256 (FIPS 180-4) over a megabyte, again and again, each time with the last hash at the start. Linear memory only.
;;
;;   256  the 64 round constants        1024  the message schedule, 64 words      65536  the message
;;   512  the initial state             1280  the running state, 8 words
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 18)
  (data (i32.const 256)
    "\98\2f\8a\42\91\44\37\71\cf\fb\c0\b5\a5\db\b5\e9\5b\c2\56\39\f1\11\f1\59\a4\82\3f\92\d5\5e\1c\ab"
    "\98\aa\07\d8\01\5b\83\12\be\85\31\24\c3\7d\0c\55\74\5d\be\72\fe\b1\de\80\a7\06\dc\9b\74\f1\9b\c1"
    "\c1\69\9b\e4\86\47\be\ef\c6\9d\c1\0f\cc\a1\0c\24\6f\2c\e9\2d\aa\84\74\4a\dc\a9\b0\5c\da\88\f9\76"
    "\52\51\3e\98\6d\c6\31\a8\c8\27\03\b0\c7\7f\59\bf\f3\0b\e0\c6\47\91\a7\d5\51\63\ca\06\67\29\29\14"
    "\85\0a\b7\27\38\21\1b\2e\fc\6d\2c\4d\13\0d\38\53\54\73\0a\65\bb\0a\6a\76\2e\c9\c2\81\85\2c\72\92"
    "\a1\e8\bf\a2\4b\66\1a\a8\70\8b\4b\c2\a3\51\6c\c7\19\e8\92\d1\24\06\99\d6\85\35\0e\f4\70\a0\6a\10"
    "\16\c1\a4\19\08\6c\37\1e\4c\77\48\27\b5\bc\b0\34\b3\0c\1c\39\4a\aa\d8\4e\4f\ca\9c\5b\f3\6f\2e\68"
    "\ee\82\8f\74\6f\63\a5\78\14\78\c8\84\08\02\c7\8c\fa\ff\be\90\eb\6c\50\a4\f7\a3\f9\be\f2\78\71\c6")
  (data (i32.const 512)
    "\67\e6\09\6a\85\ae\67\bb\72\f3\6e\3c\3a\f5\4f\a5\7f\52\0e\51\8c\68\05\9b\ab\d9\83\1f\19\cd\e0\5b")
  (global $message i32 (i32.const 65536))
  (global $length i32 (i32.const 1048576))
  (global $rounds i32 (i32.const 300))

  ;; A word in the byte order of the standard, the most significant byte first.
  (func $swap (param $w i32) (result i32)
    (i32.or
      (i32.and (i32.rotl (local.get $w) (i32.const 8)) (i32.const 0x00ff00ff))
      (i32.and (i32.rotl (local.get $w) (i32.const 24)) (i32.const 0xff00ff00))))

  (func $schedule (param $block i32)
    (local $t i32) (local $x i32) (local $y i32)
    (loop $first
      (i32.store offset=1024 (local.get $t) (call $swap (i32.load (i32.add (local.get $block) (local.get $t)))))
      (local.set $t (i32.add (local.get $t) (i32.const 4)))
      (br_if $first (i32.lt_u (local.get $t) (i32.const 64))))
    (loop $rest
      ;; 15 and 2 words back; 16 and 7 words back are added as they are.
      (local.set $x (i32.load offset=964 (local.get $t)))
      (local.set $y (i32.load offset=1016 (local.get $t)))
      (i32.store offset=1024 (local.get $t)
        (i32.add
          (i32.add
            (i32.load offset=960 (local.get $t))
            (i32.xor (i32.xor (i32.rotr (local.get $x) (i32.const 7)) (i32.rotr (local.get $x) (i32.const 18))) (i32.shr_u (local.get $x) (i32.const 3))))
          (i32.add
            (i32.load offset=996 (local.get $t))
            (i32.xor (i32.xor (i32.rotr (local.get $y) (i32.const 17)) (i32.rotr (local.get $y) (i32.const 19))) (i32.shr_u (local.get $y) (i32.const 10))))))
      (local.set $t (i32.add (local.get $t) (i32.const 4)))
      (br_if $rest (i32.lt_u (local.get $t) (i32.const 256)))))

  (func $compress (param $block i32)
    (local $a i32) (local $b i32) (local $c i32) (local $d i32) (local $e i32) (local $f i32) (local $g i32) (local $h i32)
    (local $t i32) (local $one i32) (local $two i32)
    (call $schedule (local.get $block))
    (local.set $a (i32.load (i32.const 1280)))
    (local.set $b (i32.load (i32.const 1284)))
    (local.set $c (i32.load (i32.const 1288)))
    (local.set $d (i32.load (i32.const 1292)))
    (local.set $e (i32.load (i32.const 1296)))
    (local.set $f (i32.load (i32.const 1300)))
    (local.set $g (i32.load (i32.const 1304)))
    (local.set $h (i32.load (i32.const 1308)))
    (loop $round
      (local.set $one
        (i32.add
          (i32.add
            (i32.add (local.get $h) (i32.load offset=256 (local.get $t)))
            (i32.load offset=1024 (local.get $t)))
          (i32.add
            (i32.xor (i32.xor (i32.rotr (local.get $e) (i32.const 6)) (i32.rotr (local.get $e) (i32.const 11))) (i32.rotr (local.get $e) (i32.const 25)))
            (i32.xor (local.get $g) (i32.and (local.get $e) (i32.xor (local.get $f) (local.get $g)))))))
      (local.set $two
        (i32.add
          (i32.xor (i32.xor (i32.rotr (local.get $a) (i32.const 2)) (i32.rotr (local.get $a) (i32.const 13))) (i32.rotr (local.get $a) (i32.const 22)))
          (i32.or (i32.and (local.get $a) (local.get $b)) (i32.and (local.get $c) (i32.or (local.get $a) (local.get $b))))))
      (local.set $h (local.get $g))
      (local.set $g (local.get $f))
      (local.set $f (local.get $e))
      (local.set $e (i32.add (local.get $d) (local.get $one)))
      (local.set $d (local.get $c))
      (local.set $c (local.get $b))
      (local.set $b (local.get $a))
      (local.set $a (i32.add (local.get $one) (local.get $two)))
      (local.set $t (i32.add (local.get $t) (i32.const 4)))
      (br_if $round (i32.lt_u (local.get $t) (i32.const 256))))
    (i32.store (i32.const 1280) (i32.add (i32.load (i32.const 1280)) (local.get $a)))
    (i32.store (i32.const 1284) (i32.add (i32.load (i32.const 1284)) (local.get $b)))
    (i32.store (i32.const 1288) (i32.add (i32.load (i32.const 1288)) (local.get $c)))
    (i32.store (i32.const 1292) (i32.add (i32.load (i32.const 1292)) (local.get $d)))
    (i32.store (i32.const 1296) (i32.add (i32.load (i32.const 1296)) (local.get $e)))
    (i32.store (i32.const 1300) (i32.add (i32.load (i32.const 1300)) (local.get $f)))
    (i32.store (i32.const 1304) (i32.add (i32.load (i32.const 1304)) (local.get $g)))
    (i32.store (i32.const 1308) (i32.add (i32.load (i32.const 1308)) (local.get $h))))

  ;; Hashes the message, whose length is a whole number of blocks, so that the padding is a block of its own.
  (func $hash
    (local $block i32) (local $end i32)
    (local.set $block (global.get $message))
    (local.set $end (i32.add (global.get $message) (global.get $length)))
    (memory.copy (i32.const 1280) (i32.const 512) (i32.const 32))
    (memory.fill (local.get $end) (i32.const 0) (i32.const 64))
    (i32.store8 (local.get $end) (i32.const 0x80))
    (i32.store offset=60 (local.get $end) (call $swap (i32.shl (global.get $length) (i32.const 3))))
    (loop $blocks
      (call $compress (local.get $block))
      (local.set $block (i32.add (local.get $block) (i32.const 64)))
      (br_if $blocks (i32.le_u (local.get $block) (local.get $end)))))

  ;; Prints the state as 64 hexadecimal digits and a newline.
  (func $print_state
    (local $i i32) (local $digit i32)
    (loop $digits
      (local.set $digit
        (i32.and (i32.const 15)
          (i32.shr_u
            (i32.load offset=1280 (i32.shl (i32.shr_u (local.get $i) (i32.const 3)) (i32.const 2)))
            (i32.sub (i32.const 28) (i32.shl (i32.and (local.get $i) (i32.const 7)) (i32.const 2))))))
      (i32.store8 offset=32 (local.get $i)
        (i32.add (local.get $digit) (select (i32.const 48) (i32.const 87) (i32.lt_u (local.get $digit) (i32.const 10)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $digits (i32.lt_u (local.get $i) (i32.const 64))))
    (i32.store8 (i32.const 96) (i32.const 10))
    (i32.store (i32.const 0) (i32.const 32))
    (i32.store (i32.const 4) (i32.const 65))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))

  (func (export "_start")
    (local $i i32)
    (loop $fill
      (i32.store8 (i32.add (global.get $message) (local.get $i)) (i32.mul (local.get $i) (i32.const 7)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $fill (i32.lt_u (local.get $i) (global.get $length))))
    (call $hash)
    (call $print_state)
    (local.set $i (i32.const 1))
    (loop $rounds
      (memory.copy (global.get $message) (i32.const 1280) (i32.const 32))
      (call $hash)
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $rounds (i32.lt_u (local.get $i) (global.get $rounds))))
    (call $print_state))
)
