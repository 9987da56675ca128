import org.teavm.interop.Export;

/** Many short-lived trees beside one that lives through it all. */
public final class Main {
    private static final int DEPTH = 16;

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        Tree longLived = Tree.ofDepth(DEPTH);
        for (int depth = 4; depth <= DEPTH; depth += 4) {
            int rounds = 1 << (DEPTH - depth + 4);
            long nodes = 0;
            for (int i = 0; i < rounds; i++) nodes += Tree.ofDepth(depth).count();
            System.out.println(rounds + " trees of depth " + depth + ": " + nodes + " nodes");
        }
        System.out.println("the long-lived tree of depth " + DEPTH + ": " + longLived.count() + " nodes");
    }

    private static final class Tree {
        private final Tree left;
        private final Tree right;

        private Tree(Tree left, Tree right) {
            this.left = left;
            this.right = right;
        }

        static Tree ofDepth(int depth) {
            return depth == 0 ? new Tree(null, null) : new Tree(ofDepth(depth - 1), ofDepth(depth - 1));
        }

        int count() {
            return left == null ? 1 : 1 + left.count() + right.count();
        }
    }
}
