;; What an inlined function calls is inlined, too, while it is small: less of it the deeper it lies.
(module
  (type $point (struct (field $x (mut i32)) (field $y (mut i32))))
  (import "host" "f" (func $f (param i32)))
  (func $x (param (ref null $point)) (result i32) (struct.get $point $x (local.get 0)))
  (func $product (param (ref null $point) (ref null $point)) (result i32)
    (i32.mul (call $x (local.get 0)) (call $x (local.get 1))))
  (func $square (param (ref null $point)) (result i32) (call $product (local.get 0) (local.get 0)))
  (func (export "square") (param (ref null $point)) (result i32) (call $square (local.get 0)))
  ;; Two calls cost more than what is inlined two calls deep.
  (func $tells (param i32) (call $f (local.get 0)) (call $f (i32.const 2)))
  (func $tells_twice (param i32) (call $tells (local.get 0)))
  (func (export "tells") (param i32) (call $tells_twice (local.get 0))))
