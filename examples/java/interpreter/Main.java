import org.teavm.interop.Export;

/** A small Lisp runs programs: every number is a box, every call an environment, every list a chain of pairs. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(4);
    }

    /** The programs, so many times. */
    @Export(name = "sized")
    public static void sized(int rounds) {
        Interpreter lisp = new Interpreter();
        String library =
            "(define fold (lambda (f start list) (if (null? list) start (fold f (f start (car list)) (cdr list)))))"
            + "(define reverse (lambda (list) (fold (lambda (done x) (cons x done)) nil list)))"
            + "(define map (lambda (f list) (reverse (fold (lambda (done x) (cons (f x) done)) nil list))))"
            + "(define filter (lambda (p list) (reverse (fold (lambda (done x) (if (p x) (cons x done) done)) nil list))))"
            + "(define append (lambda (a b) (fold (lambda (done x) (cons x done)) b (reverse a))))"
            + "(define range (lambda (from to) (if (< from to) (cons from (range (+ from 1) to)) nil)))"
            + "(define length (lambda (list) (fold (lambda (n x) (+ n 1)) 0 list)))";
        lisp.run(library);
        System.out.println("squares: " + lisp.run("(map (lambda (x) (* x x)) (range 0 10))"));
        System.out.println("fibonacci: " + lisp.run(
            "(define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))) (map fib (range 10 17))"));

        lisp.run("(define seed 1)"
            + "(define next (lambda () (set! seed (mod (+ (* seed 1103515245) 12345) 2147483648))))"
            + "(define numbers (lambda (n) (if (< 0 n) (cons (mod (next) 1000) (numbers (- n 1))) nil)))"
            + "(define sort (lambda (list) (if (null? list) nil ((lambda (pivot rest) (append"
            + "  (sort (filter (lambda (x) (< x pivot)) rest))"
            + "  (cons pivot (sort (filter (lambda (x) (if (< x pivot) nil t)) rest))))) (car list) (cdr list)))))"
            + "(define safe? (lambda (row placed distance) (if (null? placed) t (if (= row (car placed)) nil"
            + "  (if (= row (+ (car placed) distance)) nil (if (= row (- (car placed) distance)) nil"
            + "  (safe? row (cdr placed) (+ distance 1))))))))"
            + "(define queens (lambda (size left placed) (if (= left 0) 1 (fold (lambda (sum row)"
            + "  (if (safe? row placed 1) (+ sum (queens size (- left 1) (cons row placed))) sum)) 0 (range 0 size)))))"
            + "(define compose (lambda (f g) (lambda (x) (f (g x)))))"
            + "(define power (lambda (f n) (if (= n 0) (lambda (x) x) (compose f (power f (- n 1))))))");
        Object last = null;
        for (int round = 0; round < rounds; round++) {
            last = lisp.run("(cons (queens 5 5 nil) (cons ((power (lambda (x) (+ x 3)) 100) 7) (sort (numbers 60))))");
        }
        System.out.println("the last of " + rounds + " rounds: " + last);
        System.out.println("the seed: " + lisp.run("seed"));
    }
}
