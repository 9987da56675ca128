;; A throw with its handler in the same function becomes a jump, and the exception object is never made.
(module
  (tag $e (param i32))
  (func (param $x i32) (result i32)
    (block $h (result i32)
      (try_table (catch $e $h)
        (if (local.get $x) (then (throw $e (local.get $x)))))
      (i32.const 5))))
