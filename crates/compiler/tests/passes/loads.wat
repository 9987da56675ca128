;; A mutable field or global is loaded once, and again only after what may have written it. Stores to arrays have not.
(module
  (import "" "f" (func $f))
  (import "" "g" (global $imported (mut i32)))
  (import "" "h" (global $also_imported (mut i32)))
  (type $raw (array (mut i32)))
  (type $base (sub (struct (field $count (mut i32)) (field $raw (mut (ref null $raw))))))
  (type $derived (sub $base (struct (field (mut i32)) (field (mut (ref null $raw))) (field $own (mut i64)))))
  (type $other (struct (field $count (mut i32))))
  (type $bytes (array (mut i8)))
  (type $packed (struct (field $byte (mut i8))))
  (global $g (mut i32) (i32.const 0))

  (func (export "over array stores") (param $o (ref null $base)) (param $i i32)
    (array.set $raw (struct.get $base $raw (local.get $o)) (local.get $i) (i32.const 1))
    (array.set $raw (struct.get $base $raw (local.get $o)) (i32.const 0) (local.get $i))
    (array.fill $raw (struct.get $base $raw (local.get $o)) (i32.const 0) (i32.const 7) (i32.const 3)))

  (func (export "across a diamond") (param $o (ref $base)) (param $i i32) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (i32.add
        (if (result i32) (local.get $i)
          (then (array.set $raw (struct.get $base $raw (local.get $o)) (local.get $i) (i32.const 1)) (i32.const 5))
          (else (global.set $g (local.get $i)) (i32.const 6)))
        (struct.get $base $count (local.get $o)))))

  (func (export "across a diamond with a store") (param $o (ref $base)) (param $p (ref $base)) (param $i i32) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (i32.add
        (if (result i32) (local.get $i)
          (then (struct.set $base $count (local.get $p) (i32.const 1)) (i32.const 5))
          (else (i32.const 6)))
        (struct.get $base $count (local.get $o)))))

  (func (export "over a call") (param $o (ref $base)) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (block (result i32) (call $f) (struct.get $base $count (local.get $o)))))

  (func (export "through another object") (param $o (ref $base)) (param $p (ref $base)) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (block (result i32)
        (struct.set $base $count (local.get $p) (i32.const 3))
        (struct.get $base $count (local.get $o)))))

  ;; An object has one field of this number, and $other declares another one.
  (func (export "other fields") (param $o (ref $base)) (param $p (ref $other)) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (block (result i32)
        (struct.set $other $count (local.get $p) (i32.const 3))
        (struct.set $base $raw (local.get $o) (ref.null $raw))
        (struct.get $base $count (local.get $o)))))

  (func (export "in a handler") (param $o (ref $base)) (result i32)
    (i32.add (struct.get $base $count (local.get $o))
      (block (result i32)
        (block $caught (try_table (catch_all $caught) (call $f) (return (struct.get $base $count (local.get $o)))))
        (struct.get $base $count (local.get $o)))))

  (func (export "before a loop that writes") (param $o (ref $base)) (param $p (ref $base)) (param $n i32) (result i32)
    (local $sum i32)
    (local.set $sum (struct.get $base $count (local.get $o)))
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (struct.get $base $count (local.get $o))))
      (struct.set $base $count (local.get $p) (local.get $n))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))

  (func (export "before a loop that does not") (param $o (ref $base)) (param $p (ref $base)) (param $n i32) (result i32)
    (local $sum i32)
    (local.set $sum (struct.get $base $count (local.get $o)))
    (loop $next
      (struct.set $base $raw (local.get $o) (array.new_default $raw (local.get $n)))
      (local.set $sum (i32.add (local.get $sum) (struct.get $base $count (local.get $o))))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.add (local.get $sum) (struct.get $base $count (local.get $o))))

  ;; The array would be kept in the loop for nothing; the count costs less.
  (func (export "around a loop") (param $o (ref $base)) (param $n i32) (result i32)
    (array.set $raw (struct.get $base $raw (local.get $o)) (struct.get $base $count (local.get $o)) (local.get $n))
    (loop $next
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (array.get $raw (struct.get $base $raw (local.get $o)) (struct.get $base $count (local.get $o))))

  (func (export "stored") (param $o (ref null $base)) (param $i i32) (result i32)
    (struct.set $base $raw (local.get $o) (array.new_default $raw (i32.const 4)))
    (struct.set $base $count (local.get $o) (local.get $i))
    (array.set $raw (struct.get $base $raw (local.get $o)) (i32.const 1) (local.get $i))
    (struct.get $base $count (local.get $o)))

  (func (export "packed") (param $o (ref null $packed)) (param $i i32) (result i32)
    (struct.set $packed $byte (local.get $o) (local.get $i))
    (i32.add
      (i32.add (struct.get_s $packed $byte (local.get $o)) (struct.get_u $packed $byte (local.get $o)))
      (i32.sub (struct.get_s $packed $byte (local.get $o)) (struct.get_u $packed $byte (local.get $o)))))

  (func (export "subtype") (param $o (ref null $base)) (result i32)
    (i32.sub (struct.get $base $count (local.get $o))
      (struct.get $derived 0 (ref.cast (ref $derived) (local.get $o)))))

  (func (export "stored through a subtype") (param $o (ref $base)) (param $p (ref $derived)) (result i32)
    (i32.sub (struct.get $base $count (local.get $o))
      (block (result i32)
        (struct.set $derived $own (local.get $p) (i64.const 1))
        (struct.set $derived 0 (local.get $p) (i32.const 1))
        (struct.get $base $count (local.get $o)))))

  (func (export "globals") (param $i i32) (result i32)
    (global.set $g (local.get $i))
    (i32.add (i32.add (global.get $g) (global.get $imported))
      (block (result i32)
        (global.set $also_imported (i32.const 1))
        (i32.add (i32.add (global.get $g) (global.get $also_imported)) (global.get $imported)))))

  (func (export "elements") (param $a (ref $raw)) (param $i i32) (param $j i32) (result i32)
    ;; Loaded once, then known from the store; the store to $j may be one to $i.
    (array.set $raw (local.get $a) (local.get $i)
      (i32.add (array.get $raw (local.get $a) (local.get $i)) (array.get $raw (local.get $a) (local.get $i))))
    (array.set $raw (local.get $a) (local.get $j) (array.get $raw (local.get $a) (local.get $i)))
    (array.get $raw (local.get $a) (local.get $i)))

  (func (export "elements of other arrays") (param $a (ref $raw)) (param $b (ref $bytes)) (param $i i32) (result i32)
    ;; A packed element is not known from its store.
    (local $x i32)
    (local.set $x (array.get $raw (local.get $a) (local.get $i)))
    (array.set $bytes (local.get $b) (local.get $i) (local.get $x))
    (i32.add (array.get_u $bytes (local.get $b) (local.get $i)) (array.get $raw (local.get $a) (local.get $i))))
)
