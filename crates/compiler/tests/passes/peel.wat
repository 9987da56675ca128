;; The first iteration of a loop has code of its own where what it checks and loads is known in later ones.
(module
  (type $row (array (mut f64)))
  (type $rows (array (mut (ref null $row))))
  (type $matrix (struct (field $rows (mut (ref null $rows))) (field $width (mut i32))))
  (type $fixed (struct (field i32)))
  (import "host" "step" (func $step (param i32)))
  (tag $found (param i32))

  ;; Row and bounds are known; what is found in it is used behind two ways out.
  (func (export "find") (param $matrix (ref null $matrix)) (param $from i32) (param $wanted f64) (result i32)
    (local $value f64)
    (block $at
      (loop $next
        (local.set $value
          (array.get $row (array.get $rows (struct.get $matrix $rows (local.get $matrix)) (i32.const 1))
            (local.get $from)))
        (br_if $at (f64.eq (local.get $value) (local.get $wanted)))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br_if $next (f64.lt (local.get $value) (local.get $wanted))))
      (return (i32.trunc_sat_f64_s (local.get $value))))
    (local.get $from))

  ;; A loop that calls, and is left by an exception.
  (func (export "caught") (param $fixed (ref null $fixed)) (param $count i32) (result i32)
    (block $found (result i32)
      (try_table (catch $found $found)
        (loop $next
          (call $step (local.get $count))
          (local.set $count (i32.sub (local.get $count) (struct.get $fixed 0 (local.get $fixed))))
          (br_if $next (local.get $count))))
      (local.get $count)))

  ;; What only some iterations check stays as it is.
  (func (export "sometimes") (param $matrix (ref null $matrix)) (param $count i32) (result i32) (local $sum i32)
    (loop $next
      (if (i32.and (local.get $count) (i32.const 1)) (then
        (local.set $sum (i32.add (local.get $sum) (struct.get $matrix $width (local.get $matrix))))))
      (br_if $next (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (local.get $sum))

  ;; And what the loop changes.
  (func (export "written") (param $matrix (ref null $matrix)) (param $count i32)
    (loop $next
      (if (i32.and (local.get $count) (i32.const 1)) (then (return)))
      (struct.set $matrix $width (local.get $matrix)
        (i32.add (struct.get $matrix $width (local.get $matrix)) (local.get $count)))
      (br_if $next (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))))
