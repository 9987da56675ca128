;; An accessor that checks its index, and makes and throws an exception itself: what throws is not counted where it is
;; inlined.
(module
  (type $chars (array (mut i16)))
  (type $string (struct (field $chars (ref null $chars))))
  (type $error (struct (field $code (mut i32)) (field $at (mut i32))))
  (tag $thrown (param (ref null $error)))
  (func $make (param i32) (result (ref $error)) (struct.new $error (local.get 0) (i32.const 0)))
  (func $prepare (param (ref null $error)) (if (ref.is_null (local.get 0)) (then (call $prepare (local.get 0)))))
  (func $char_at (param $string (ref null $string)) (param $at i32) (result i32)
    (local $error (ref null $error))
    (if (ref.is_null (local.get $string)) (then
      (local.set $error (call $make (i32.const 1)))
      (call $prepare (local.get $error))
      (call $prepare (local.get $error))
      (throw $thrown (local.get $error))))
    (if (i32.ge_u (local.get $at) (array.len (struct.get $string $chars (local.get $string)))) (then
      (local.set $error (call $make (i32.const 2)))
      (struct.set $error $at (local.get $error) (local.get $at))
      (call $prepare (local.get $error))
      (throw $thrown (local.get $error))))
    (array.get_u $chars (struct.get $string $chars (local.get $string)) (local.get $at)))
  (func (export "is_digit") (param (ref null $string) i32) (result i32)
    (i32.lt_u (i32.sub (call $char_at (local.get 0) (local.get 1)) (i32.const 48)) (i32.const 10))))
