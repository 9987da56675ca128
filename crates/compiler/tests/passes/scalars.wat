;; Structs to which no reference leaves their function.
(module
  (type $range (struct (field (mut i32)) (field i32)))
  (type $box (sub (struct (field (mut i8)) (field (mut i16)) (field (mut (ref null $range))))))
  (type $wide (sub $box (struct (field (mut i8)) (field (mut i16)) (field (mut (ref null $range))) (field i64))))
  (func $may_throw (import "host" "f") (param i32))
  (tag $thrown (param i32))
  (global $kept (mut (ref null $range)) (ref.null $range))

  ;; An iterator: what it has come to is a parameter of the loop.
  (func $iterates (param $end i32) (result i32)
    (local $it (ref null $range)) (local $sum i32)
    (local.set $it (struct.new $range (i32.const 0) (local.get $end)))
    (block $done (loop $next
      (br_if $done (i32.ge_s (struct.get $range 0 (local.get $it)) (struct.get $range 1 (local.get $it))))
      (local.set $sum (i32.add (local.get $sum) (struct.get $range 0 (local.get $it))))
      (call $may_throw (local.get $sum))
      (struct.set $range 0 (local.get $it) (i32.add (struct.get $range 0 (local.get $it)) (i32.const 1)))
      (br $next)))
    (local.get $sum))

  ;; Packed fields, a cast, a test, comparisons; one object holds the other.
  (func $packed (param $n i32) (result i32)
    (local $box (ref null $box)) (local $range (ref null $range))
    (local.set $range (struct.new_default $range))
    (local.set $box (struct.new $wide (local.get $n) (local.get $n) (ref.null $range) (i64.const 1)))
    (struct.set $box 2 (local.get $box) (local.get $range))
    (struct.set $range 0 (struct.get $box 2 (local.get $box)) (i32.const 5))
    (if (local.get $n) (then (struct.set $box 1 (local.get $box) (i32.const 70000))))
    (i32.add
      (i32.add (struct.get_s $box 0 (local.get $box)) (struct.get_u $box 1 (local.get $box)))
      (i32.add
        (i32.add (struct.get $range 0 (local.get $range)) (ref.test (ref $wide) (local.get $box)))
        (i32.add (ref.eq (local.get $box) (local.get $range))
          (ref.eq (local.get $range) (struct.get $box 2 (ref.cast (ref $wide) (local.get $box))))))))

  ;; What a handler finds is what was there at the call.
  (func $caught (param $n i32) (result i32)
    (local $range (ref null $range))
    (local.set $range (struct.new $range (local.get $n) (i32.const 7)))
    (block $handler (result i32)
      (try_table (catch $thrown $handler)
        (struct.set $range 0 (local.get $range) (i32.const 1))
        (call $may_throw (local.get $n))
        (struct.set $range 0 (local.get $range) (i32.const 2))
        (call $may_throw (local.get $n))
        (struct.set $range 0 (local.get $range) (i32.const 3)))
      (i32.const 9))
    (i32.add (struct.get $range 0 (local.get $range))))

  ;; These are made: one is kept on one of two paths, one is either of two.
  (func $escapes (param $n i32) (result i32)
    (local $range (ref null $range))
    (local.set $range (struct.new $range (local.get $n) (i32.const 7)))
    (if (local.get $n) (then (global.set $kept (local.get $range))))
    (struct.get $range 0 (local.get $range)))
  (func $either (param $n i32) (result i32)
    (struct.get $range 0 (if (result (ref $range)) (local.get $n)
      (then (struct.new $range (local.get $n) (i32.const 7)))
      (else (struct.new $range (i32.const 8) (i32.const 9)))))))
