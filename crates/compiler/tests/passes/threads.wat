(module (func (param $x i32) (param $y i32) (result i32)
    (if (result i32) (if (result i32) (local.get $x) (then (i32.lt_s (local.get $y) (i32.const 3))) (else (i32.const 0)))
      (then (i32.const 10)) (else (i32.const 20)))))
