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
    (struct.get $error $code))

  ;; Values that are made when they are first asked for, by loops: where they are made already, nothing is called. Not so
  ;; where the place may be stored to on the other way.
  (type $text (struct (field $hash (mut i32)) (field $chars (ref $chars))))
  (type $boxes (array (mut (ref null eq))))
  (global $boxes (mut (ref null $boxes)) (ref.null $boxes))
  (func $hash (param $text (ref $text)) (result i32) (local $at i32) (local $hash i32)
    (if (i32.eqz (struct.get $text $hash (local.get $text))) (then
      (loop $next
        (local.set $hash (i32.add (i32.mul (local.get $hash) (i32.const 31))
          (array.get_u $chars (struct.get $text $chars (local.get $text)) (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $at) (array.len (struct.get $text $chars (local.get $text))))))
      (struct.set $text $hash (local.get $text) (local.get $hash))))
    (struct.get $text $hash (local.get $text)))
  (func $box (param $number i32) (result (ref null eq)) (local $at i32)
    (if (ref.is_null (global.get $boxes)) (then
      (global.set $boxes (array.new_default $boxes (i32.const 256)))
      (loop $next
        (array.set $boxes (global.get $boxes) (local.get $at) (ref.i31 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $at) (i32.const 256))))))
    (array.get $boxes (global.get $boxes) (local.get $number)))
  (func $sum_or_counted (param $text (ref $text)) (result i32) (local $at i32) (local $sum i32)
    (if (i32.eqz (struct.get $text $hash (local.get $text)))
      (then
        (loop $next
          (local.set $sum (i32.add (local.get $sum) (array.get_u $chars (struct.get $text $chars (local.get $text)) (local.get $at))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br_if $next (i32.lt_u (local.get $at) (array.len (struct.get $text $chars (local.get $text))))))
        (struct.set $text $hash (local.get $text) (local.get $sum)))
      (else (struct.set $text $hash (local.get $text) (i32.const 0))))
    (local.get $sum))
  (func (export "hash") (param (ref $text)) (result i32)
    (i32.add (call $hash (local.get 0)) (i32.const 1)))
  (func (export "box") (param i32) (result (ref null eq) i32)
    (call $box (local.get 0)) (i32.const 1))
  (func (export "sum") (param (ref $text)) (result i32)
    (i32.add (call $sum_or_counted (local.get 0)) (i32.const 1)))
  (func (export "hash_caught") (param (ref $text)) (result i32)
    (block $caught (result (ref null $error))
      (return (try_table (result i32) (catch $thrown $caught) (call $hash (local.get 0)))))
    (struct.get $error $code)))
