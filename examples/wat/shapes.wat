;; An object-oriented program as a compiler would write it: subtypes, a vtable per class, casts.
(module
  (rec
    (type $area (func (param (ref $shape)) (result i64)))
    (type $grow (func (param (ref $shape) i64)))
    (type $vtable (struct (field $area (ref $area)) (field $grow (ref $grow))))
    (type $shape (sub (struct (field $vtable (ref $vtable)))))
    (type $rectangle (sub $shape (struct (field $vtable (ref $vtable)) (field $width (mut i64)) (field $height (mut i64)))))
    ;; A square adds no state, but it is a type of its own: a cast can tell it from a rectangle.
    (type $square (sub final $rectangle
      (struct (field $vtable (ref $vtable)) (field $width (mut i64)) (field $height (mut i64)) (field $tag i32))))
    (type $triangle (sub final $shape (struct (field $vtable (ref $vtable)) (field $base (mut i64)) (field $height (mut i64))))))
  (type $shapes (array (mut (ref null $shape))))

  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (elem declare func $rectangle_area $rectangle_grow $square_grow $triangle_area $triangle_grow)

  (global $rectangle_vtable (ref $vtable) (struct.new $vtable (ref.func $rectangle_area) (ref.func $rectangle_grow)))
  (global $square_vtable (ref $vtable) (struct.new $vtable (ref.func $rectangle_area) (ref.func $square_grow)))
  (global $triangle_vtable (ref $vtable) (struct.new $vtable (ref.func $triangle_area) (ref.func $triangle_grow)))

  (func $rectangle_area (type $area)
    (local $self (ref $rectangle))
    (local.set $self (ref.cast (ref $rectangle) (local.get 0)))
    (i64.mul (struct.get $rectangle $width (local.get $self)) (struct.get $rectangle $height (local.get $self))))

  (func $rectangle_grow (type $grow)
    (local $self (ref $rectangle))
    (local.set $self (ref.cast (ref $rectangle) (local.get 0)))
    (struct.set $rectangle $width (local.get $self)
      (i64.add (struct.get $rectangle $width (local.get $self)) (local.get 1))))

  (func $square_grow (type $grow)
    (local $self (ref $square))
    (local.set $self (ref.cast (ref $square) (local.get 0)))
    (struct.set $square $width (local.get $self)
      (i64.add (struct.get $square $width (local.get $self)) (local.get 1)))
    (struct.set $square $height (local.get $self) (struct.get $square $width (local.get $self))))

  (func $triangle_area (type $area)
    (local $self (ref $triangle))
    (local.set $self (ref.cast (ref $triangle) (local.get 0)))
    (i64.div_s
      (i64.mul (struct.get $triangle $base (local.get $self)) (struct.get $triangle $height (local.get $self)))
      (i64.const 2)))

  (func $triangle_grow (type $grow)
    (local $self (ref $triangle))
    (local.set $self (ref.cast (ref $triangle) (local.get 0)))
    (struct.set $triangle $height (local.get $self)
      (i64.add (struct.get $triangle $height (local.get $self)) (local.get 1))))

  (func $make (param $i i32) (result (ref $shape))
    (local $size i64)
    (local.set $size (i64.extend_i32_u (i32.add (i32.rem_u (local.get $i) (i32.const 10)) (i32.const 1))))
    (block $triangle
      (block $square
        (block $rectangle
          (br_table $rectangle $square $triangle (i32.rem_u (local.get $i) (i32.const 3))))
        (return (struct.new $rectangle (global.get $rectangle_vtable) (local.get $size) (i64.const 3))))
      (return (struct.new $square (global.get $square_vtable) (local.get $size) (local.get $size) (i32.const 0))))
    (struct.new $triangle (global.get $triangle_vtable) (local.get $size) (i64.const 4)))

  (func $area_of (param $shape (ref $shape)) (result i64)
    (call_ref $area (local.get $shape) (struct.get $vtable $area (struct.get $shape $vtable (local.get $shape)))))

  ;; 1 for a square, 100 for any other rectangle, 10000 for the rest: the sum shows three counts at once.
  (func $kind (param $shape (ref $shape)) (result i64)
    (block $rectangle (result (ref $rectangle))
      (block $square (result (ref $square))
        (local.get $shape)
        (br_on_cast $square (ref $shape) (ref $square))
        (br_on_cast $rectangle (ref $shape) (ref $rectangle))
        (drop)
        (return (i64.const 10000)))
      (drop)
      (return (i64.const 1)))
    (drop)
    (i64.const 100))

  (func (export "_start")
    (local $shapes (ref $shapes)) (local $shape (ref $shape)) (local $i i32) (local $round i32)
    (local $total i64) (local $kinds i64)
    (local.set $shapes (array.new_default $shapes (i32.const 90)))
    (loop $fill
      (array.set $shapes (local.get $shapes) (local.get $i) (call $make (local.get $i)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $fill (i32.lt_u (local.get $i) (array.len (local.get $shapes)))))
    (loop $rounds
      (local.set $i (i32.const 0))
      (loop $each
        (local.set $shape (ref.as_non_null (array.get $shapes (local.get $shapes) (local.get $i))))
        ;; Growing every thousandth round keeps the areas within 64 bits.
        (if (i32.eqz (i32.rem_u (local.get $round) (i32.const 1000))) (then
          (call_ref $grow (local.get $shape) (i64.const 1)
            (struct.get $vtable $grow (struct.get $shape $vtable (local.get $shape))))))
        (local.set $total (i64.add (local.get $total) (call $area_of (local.get $shape))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $each (i32.lt_u (local.get $i) (array.len (local.get $shapes)))))
      (local.set $round (i32.add (local.get $round) (i32.const 1)))
      (br_if $rounds (i32.lt_u (local.get $round) (i32.const 200000))))
    (local.set $i (i32.const 0))
    (loop $classify
      (local.set $kinds (i64.add (local.get $kinds)
        (call $kind (ref.as_non_null (array.get $shapes (local.get $shapes) (local.get $i))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $classify (i32.lt_u (local.get $i) (array.len (local.get $shapes)))))
    (call $print (local.get $kinds))
    (call $print (local.get $total)))

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
