; What a heap has to hold: lists, closures, cycles, a loop that allocates for long and keeps nothing.

(define (range from to) (if (< from to) (cons from (range (+ from 1) to)) '()))
(define (map f list) (if (null? list) '() (cons (f (car list)) (map f (cdr list)))))
(define (fold f start list) (if (null? list) start (fold f (f start (car list)) (cdr list))))
(define (filter f list)
  (if (null? list) '() (if (f (car list)) (cons (car list) (filter f (cdr list))) (filter f (cdr list)))))
(define (reverse list) (fold (lambda (done next) (cons next done)) '() list))
(define (append left right) (if (null? left) right (cons (car left) (append (cdr left) right))))
(define (length list) (fold (lambda (count next) (+ count 1)) 0 list))
(define (not value) (if value '() t))

(print (map (lambda (x) (* x x)) (range 0 10)))
(print (fold + 0 (range 0 100)))

(define (adder n) (lambda (x) (+ x n)))
(print (map (adder 5) '(1 2 3)))

; Primes, by a sieve of closures.
(define (sieve list)
  (if (null? list) '()
      (let ((prime (car list)))
        (cons prime (sieve (filter (lambda (n) (not (= 0 (remainder n prime)))) (cdr list)))))))
(define (remainder n m) (if (< n m) n (remainder (- n m) m)))
(print (sieve (range 2 60)))

; Six queens: every way to place them, as lists of rows.
(define (safe? row distance placed)
  (if (null? placed) t
      (if (= (car placed) row) '()
          (if (= (car placed) (+ row distance)) '()
              (if (= (car placed) (- row distance)) '()
                  (safe? row (+ distance 1) (cdr placed)))))))
(define (place queens rows)
  (if (= queens 0) '(())
      (fold (lambda (found placed)
              (append found
                      (map (lambda (row) (cons row placed))
                           (filter (lambda (row) (safe? row 1 placed)) rows))))
            '() (place (- queens 1) rows))))
(print (place 6 (range 0 6)))

; A hundred thousand steps in no stack, each of which forgets a list.
(define (churn steps)
  (if (= steps 0) 'churned (begin (cons steps '(1 2 3)) (churn (- steps 1)))))
(print (churn 100000))

; A circle, which nothing but a collector of cycles gives back.
(define (circle n) (let ((last (cons n '()))) (begin (set-cdr! last (cons 'round last)) last)))
(define kept (circle 1))
(define weak-kept (weak kept))
(define weak-lost (weak (circle 2)))
(on-death kept "the circle that was kept is gone")
(on-death (circle 3) "a circle is gone")
(print (collect))
(print (alive? weak-kept))
(print (alive? weak-lost))
(define kept 'nothing)
(print (collect))
(print (alive? weak-kept))
