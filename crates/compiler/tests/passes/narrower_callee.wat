;; The function called directly may return a narrower type than the reference's type promised.
(module
  (type $a (sub (struct)))
  (type $b (sub $a (struct (field i32))))
  (type $f (sub (func (result (ref null $a)))))
  (type $g (sub $f (func (result (ref null $b)))))
  (import "" "callee" (func $callee (type $g)))
  (elem declare func $callee)
  (func (result (ref null $a)) (call_ref $f (ref.func $callee))))
