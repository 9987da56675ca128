;; The program's own bounds checks: two signed comparisons become one, where they fail alike and nothing between them traps. What only leads
;; to a trap is cold.
(module
  (type $a (array (mut i32)))
  (func (export "one comparison") (param $a (ref $a)) (param $i i32) (result i32)
    (block $fails
      (br_if $fails (i32.lt_s (local.get $i) (i32.const 0)))
      (br_if $fails (i32.ge_s (local.get $i) (array.len (local.get $a))))
      (return (array.get $a (local.get $a) (local.get $i))))
    unreachable)
  (func (export "the other way round") (param $a (ref $a)) (param $i i32) (result i32)
    (block $fails
      (br_if $fails (i32.gt_s (i32.const 0) (local.get $i)))
      (br_if $fails (i32.le_s (array.len (local.get $a)) (local.get $i)))
      (return (array.get $a (local.get $a) (local.get $i))))
    (i32.const -1))
  (func (export "null traps only behind the first") (param $a (ref null $a)) (param $i i32) (result i32)
    (block $fails
      (br_if $fails (i32.lt_s (local.get $i) (i32.const 0)))
      (br_if $fails (i32.ge_s (local.get $i) (array.len (local.get $a))))
      (return (array.get $a (local.get $a) (local.get $i))))
    (i32.const -1))
  (func (export "they fail differently") (param $a (ref $a)) (param $i i32) (result i32)
    (if (i32.lt_s (local.get $i) (i32.const 0)) (then (return (i32.const -1))))
    (if (i32.ge_s (local.get $i) (array.len (local.get $a))) (then (return (i32.const -2))))
    (array.get $a (local.get $a) (local.get $i)))
  (func (export "no length") (param $n i32) (param $i i32) (result i32)
    (block $fails
      (br_if $fails (i32.lt_s (local.get $i) (i32.const 0)))
      (br_if $fails (i32.ge_s (local.get $i) (local.get $n)))
      (return (local.get $i)))
    (i32.const -1)))
