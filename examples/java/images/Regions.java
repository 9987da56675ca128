import java.util.Arrays;

/** Connected parts of one colour. */
final class Regions {
    private Regions() {
    }

    /** How many pixels each of them has, in order of size. */
    static int[] sizes(Gray gray) {
        boolean[] seen = new boolean[gray.levels.length];
        // As large as can be needed; most of it hardly ever is.
        int[] stack = new int[gray.levels.length];
        int[] sizes = new int[gray.levels.length];
        int regions = 0;
        for (int start = 0; start < seen.length; start++) {
            if (seen[start]) continue;
            int depth = 0;
            stack[depth++] = start;
            seen[start] = true;
            int size = 0;
            while (depth > 0) {
                int at = stack[--depth];
                int x = at % gray.width;
                size++;
                if (x > 0 && joins(gray, seen, at, at - 1)) stack[depth++] = at - 1;
                if (x < gray.width - 1 && joins(gray, seen, at, at + 1)) stack[depth++] = at + 1;
                if (at >= gray.width && joins(gray, seen, at, at - gray.width)) stack[depth++] = at - gray.width;
                if (at + gray.width < seen.length && joins(gray, seen, at, at + gray.width)) stack[depth++] = at + gray.width;
            }
            sizes[regions++] = size;
        }
        int[] result = Arrays.copyOf(sizes, regions);
        Arrays.sort(result);
        return result;
    }

    private static boolean joins(Gray gray, boolean[] seen, int from, int to) {
        if (seen[to] || gray.levels[from] != gray.levels[to]) return false;
        seen[to] = true;
        return true;
    }
}
