/** What makes a picture of the same size. */
final class Filters {
    private Filters() {
    }

    /** Every pixel becomes the mean of its surroundings: sums run along the rows, then along the columns. */
    static Picture blurred(Picture picture, int radius) {
        return blurredTurned(blurredTurned(picture, radius), radius);
    }

    /** Blurred along the rows, with rows and columns exchanged. */
    private static Picture blurredTurned(Picture picture, int radius) {
        Picture result = new Picture(picture.height, picture.width);
        int[] pixels = picture.pixels;
        int window = 2 * radius + 1;
        for (int y = 0; y < picture.height; y++) {
            int row = y * picture.width;
            int last = picture.width - 1;
            int red = 0;
            int green = 0;
            int blue = 0;
            for (int x = -radius; x <= radius; x++) {
                int pixel = pixels[row + Math.max(0, Math.min(last, x))];
                red += pixel >> 16;
                green += pixel >> 8 & 255;
                blue += pixel & 255;
            }
            for (int x = 0; x <= last; x++) {
                result.pixels[x * result.width + y] = red / window << 16 | green / window << 8 | blue / window;
                int out = pixels[row + Math.max(0, x - radius)];
                int in = pixels[row + Math.min(last, x + radius + 1)];
                red += (in >> 16) - (out >> 16);
                green += (in >> 8 & 255) - (out >> 8 & 255);
                blue += (in & 255) - (out & 255);
            }
        }
        return result;
    }

    /** How much the brightness changes, by Sobel's operator. */
    static Gray edges(Gray gray) {
        Gray result = new Gray(gray.width, gray.height);
        for (int y = 1; y < gray.height - 1; y++) {
            for (int x = 1; x < gray.width - 1; x++) {
                int dx = gray.at(x + 1, y - 1) + 2 * gray.at(x + 1, y) + gray.at(x + 1, y + 1)
                        - gray.at(x - 1, y - 1) - 2 * gray.at(x - 1, y) - gray.at(x - 1, y + 1);
                int dy = gray.at(x - 1, y + 1) + 2 * gray.at(x, y + 1) + gray.at(x + 1, y + 1)
                        - gray.at(x - 1, y - 1) - 2 * gray.at(x, y - 1) - gray.at(x + 1, y - 1);
                result.levels[y * gray.width + x] = (byte) Math.min(255, Math.abs(dx) + Math.abs(dy));
            }
        }
        return result;
    }

    /** Every level of brightness as often as any other. */
    static Gray equalised(Gray gray) {
        int[] counts = new int[256];
        for (byte level : gray.levels) counts[level & 255]++;
        byte[] levels = new byte[256];
        long below = 0;
        for (int level = 0; level < 256; level++) {
            levels[level] = (byte) (below * 255 / gray.levels.length);
            below += counts[level];
        }
        Gray result = new Gray(gray.width, gray.height);
        for (int i = 0; i < gray.levels.length; i++) result.levels[i] = levels[gray.levels[i] & 255];
        return result;
    }

    /** Black and white, by Floyd and Steinberg: each pixel's error goes to its neighbours. */
    static Gray dithered(Gray gray) {
        Gray result = new Gray(gray.width, gray.height);
        int[] errors = new int[gray.width + 2];
        int[] next = new int[gray.width + 2];
        for (int y = 0; y < gray.height; y++) {
            for (int x = 0; x < gray.width; x++) {
                int wanted = gray.at(x, y) + errors[x + 1] / 16;
                boolean white = wanted >= 128;
                int error = wanted - (white ? 255 : 0);
                if (white) result.levels[y * gray.width + x] = (byte) 255;
                errors[x + 2] += 7 * error;
                next[x] += 3 * error;
                next[x + 1] += 5 * error;
                next[x + 2] += error;
            }
            int[] done = errors;
            errors = next;
            next = done;
            java.util.Arrays.fill(next, 0);
        }
        return result;
    }

    /** The darkest of each pixel's surroundings. */
    static Gray eroded(Gray gray, int radius) {
        Gray rows = new Gray(gray.width, gray.height);
        Gray result = new Gray(gray.width, gray.height);
        for (int y = 0; y < gray.height; y++) {
            for (int x = 0; x < gray.width; x++) {
                int darkest = 255;
                int end = Math.min(gray.width - 1, x + radius);
                for (int near = Math.max(0, x - radius); near <= end; near++) darkest = Math.min(darkest, gray.at(near, y));
                rows.levels[y * gray.width + x] = (byte) darkest;
            }
        }
        for (int y = 0; y < gray.height; y++) {
            int start = Math.max(0, y - radius);
            int end = Math.min(gray.height - 1, y + radius);
            for (int x = 0; x < gray.width; x++) {
                int darkest = 255;
                for (int near = start; near <= end; near++) darkest = Math.min(darkest, rows.at(x, near));
                result.levels[y * gray.width + x] = (byte) darkest;
            }
        }
        return result;
    }
}
