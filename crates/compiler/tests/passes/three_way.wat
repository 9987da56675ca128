;; What a comparison of three outcomes gives is not looked at again, neither where it is inlined nor where it stands.
(module
  (func $compare (param $a i64) (param $b i64) (result i32)
    (if (result i32) (i64.gt_s (local.get $a) (local.get $b))
      (then (i32.const 1))
      (else (if (result i32) (i64.lt_s (local.get $a) (local.get $b)) (then (i32.const -1)) (else (i32.const 0))))))
  ;; One comparison is left.
  (func (export "is_less") (param $a i64) (param $b i64) (result i32)
    (if (result i32) (i32.lt_s (call $compare (local.get $a) (local.get $b)) (i32.const 0))
      (then (i32.const 10)) (else (i32.const 20))))
  ;; Of two outcomes that it gives, one is known.
  (func (export "some") (param $a i64) (param $b i64) (param $c i32) (result i32)
    (if (result i32)
      (i32.eqz (if (result i32) (i64.gt_s (local.get $a) (local.get $b)) (then (i32.const 1)) (else (local.get $c))))
      (then (i32.const 10)) (else (i32.const 20))))
  ;; The number is needed behind the branch.
  (func (export "needed") (param $a i64) (param $b i64) (result i32) (local $x i32)
    (local.set $x (if (result i32) (i64.gt_s (local.get $a) (local.get $b)) (then (i32.const 7)) (else (i32.const -7))))
    (if (result i32) (i32.lt_s (local.get $x) (i32.const 0))
      (then (local.get $x)) (else (i32.mul (local.get $x) (i32.const 3)))))
  ;; What the comparison gives is needed behind the branch.
  (func (export "passed") (param $a i64) (param $b i64) (result i32) (local $x i32)
    (local.set $x (i32.lt_s
      (if (result i32) (i64.gt_s (local.get $a) (local.get $b)) (then (i32.const 7)) (else (i32.const -7)))
      (i32.const 0)))
    (block $out (result i32)
      (drop (br_if $out (local.get $x) (local.get $x)))
      (i32.const 5)))
  ;; A loop is entered by its header.
  (func (export "loop") (param $n i32) (result i32) (local $i i32) (local $x i32)
    (local.set $i (i32.const 1))
    (loop $on
      (if (i32.ge_s (local.get $i) (i32.const 1)) (then
        (local.set $x (i32.add (local.get $x) (local.get $n)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (local.set $i (i32.gt_s (local.get $n) (i32.const 0)))
        (br $on))))
    (local.get $x)))
