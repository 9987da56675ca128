;; Accessors that make what they throw: where they are inlined, they are called again for it, but not where something has
;; been changed before, and not where a handler of the caller catches it.
(module
  (type $chars (array (mut i16)))
  (type $error (struct (field $code (mut i32)) (field $at (mut i32)) (field $length (mut i32))))
  (tag $thrown (param (ref null $error)))
  (func $describe (import "host" "describe") (param i32) (result i32))
  (global $reads (mut i32) (i32.const 0))
  (func $get (param $chars (ref $chars)) (param $at i32) (result i32)
    (if (i32.ge_u (local.get $at) (array.len (local.get $chars))) (then
      (throw $thrown (struct.new $error
        (call $describe (i32.const 1)) (call $describe (local.get $at))
        (call $describe (array.len (local.get $chars)))))))
    (array.get_u $chars (local.get $chars) (local.get $at)))
  (func $counted (param $chars (ref $chars)) (param $at i32) (result i32)
    (global.set $reads (i32.add (global.get $reads) (i32.const 1)))
    (if (i32.ge_u (local.get $at) (array.len (local.get $chars))) (then
      (throw $thrown (struct.new $error
        (call $describe (i32.const 2)) (call $describe (local.get $at)) (call $describe (i32.const 3))))))
    (array.get_u $chars (local.get $chars) (local.get $at)))
  (func (export "get") (param (ref $chars) i32) (result i32)
    (i32.add (call $get (local.get 0) (local.get 1)) (i32.const 1)))
  (func (export "counted") (param (ref $chars) i32) (result i32)
    (i32.add (call $counted (local.get 0) (local.get 1)) (i32.const 1)))
  (func (export "caught") (param (ref $chars) i32) (result i32)
    (block $caught (result (ref null $error))
      (return (try_table (result i32) (catch $thrown $caught)
        (call $get (local.get 0) (local.get 1)))))
    (struct.get $error $code)))
