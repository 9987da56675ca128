;; What a comparison says of a length: that of a constant, of another length, and none at all.
(module
  (type $array (array (mut i32)))

  (func (export "equal to a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.eq (array.len (local.get $a)) (i32.const 3))
      (then (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 2))))
      (else (array.get $array (local.get $a) (i32.const 0)))))

  (func (export "at least a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.ge_s (array.len (local.get $a)) (i32.const 2))
      (then (i32.sub
        (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 1)))
        (array.get $array (local.get $a) (i32.const 2))))
      (else (i32.const 0))))

  (func (export "not zero") (param $a (ref $array)) (result i32)
    (if (i32.eqz (array.len (local.get $a))) (then (return (i32.const 0))))
    (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 1))))

  (func (export "equal to another") (param $a (ref $array)) (param $b (ref $array)) (result i32)
    (local $at i32) (local $sum i32)
    (if (i32.ne (array.len (local.get $a)) (array.len (local.get $b))) (then (return (i32.const -1))))
    (loop $each
      (if (i32.lt_s (local.get $at) (array.len (local.get $a))) (then
        (local.set $sum (i32.add (local.get $sum)
          (i32.mul (array.get $array (local.get $a) (local.get $at)) (array.get $array (local.get $b) (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $each))))
    (local.get $sum))

  ;; Not below: the first element of a length that is at most two.
  (func (export "at most a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.le_u (array.len (local.get $a)) (i32.const 2))
      (then (array.get $array (local.get $a) (i32.const 0)))
      (else (array.get $array (local.get $a) (i32.const 2)))))

  ;; Comparisons that say nothing: none of these checks goes.
  (func (export "not negative") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.ge_s (array.len (local.get $a)) (i32.const 0))
      (then (array.get $array (local.get $a) (i32.const 5)))
      (else (i32.const 0))))

  (func (export "at least zero") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.ge_u (array.len (local.get $a)) (i32.const 0))
      (then (array.get $array (local.get $a) (i32.const 5)))
      (else (i32.const 0))))

  (func (export "equal to nothing") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.eq (array.len (local.get $a)) (i32.const 0))
      (then (array.get $array (local.get $a) (i32.const 0)))
      (else (i32.const 0))))

  (func (export "equal to a negative number") (param $a (ref $array)) (param $i i32) (result i32)
    (if (result i32) (i32.eq (local.get $i) (i32.const -1))
      (then (i32.lt_s (local.get $i) (array.len (local.get $a))))
      (else (i32.const 0))))

  ;; Of what is equal on one way, nothing is known behind it.
  (func (export "equal before") (param $a (ref $array)) (param $b (ref $array)) (param $c (ref $array)) (result i32)
    (local $at i32) (local $sum i32)
    (if (i32.eq (array.len (local.get $a)) (array.len (local.get $b))) (then
      (local.set $sum (i32.const 1))
      (if (i32.eq (array.len (local.get $a)) (array.len (local.get $c))) (then (local.set $sum (i32.const 2))))
      (if (i32.lt_u (local.get $sum) (array.len (local.get $a))) (then
        ;; The first check goes, the second stays.
        (local.set $at (array.get $array (local.get $b) (local.get $sum)))
        (local.set $at (i32.add (local.get $at) (array.get $array (local.get $c) (local.get $sum))))))))
    (if (i32.lt_u (local.get $sum) (array.len (local.get $a))) (then
      (local.set $at (i32.add (local.get $at) (array.get $array (local.get $b) (local.get $sum))))))
    (local.get $at))

  ;; Up to a constant, which is the last index; and one that is beyond. A counter that may pass the greatest number.
  (func (export "up to the last") (result i32) (local $a (ref $array)) (local $at i32) (local $sum i32)
    (local.set $a (array.new $array (i32.const 3) (i32.const 10)))
    (loop $each
      (if (i32.le_s (local.get $at) (i32.const 9)) (then
        (local.set $sum (i32.add (local.get $sum) (array.get $array (local.get $a) (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $each))))
    (local.get $sum))

  (func (export "one beyond the last") (result i32) (local $a (ref $array)) (local $at i32) (local $sum i32)
    (local.set $a (array.new $array (i32.const 3) (i32.const 9)))
    (loop $each
      (if (i32.le_s (local.get $at) (i32.const 9)) (then
        (local.set $sum (i32.add (local.get $sum) (array.get $array (local.get $a) (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $each))))
    (local.get $sum))

  (func (export "up to the greatest") (param $a (ref $array)) (result i32) (local $at i32) (local $sum i32)
    (loop $each
      (if (i32.le_s (local.get $at) (i32.const 0x7fffffff)) (then
        (if (i32.lt_s (local.get $at) (array.len (local.get $a))) (then
          (local.set $sum (i32.add (local.get $sum) (array.get $array (local.get $a) (local.get $at))))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $each))))
    (local.get $sum)))
