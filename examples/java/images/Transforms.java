/** What moves pixels. */
final class Transforms {
    private Transforms() {
    }

    /** A quarter to the right. */
    static Picture turned(Picture picture) {
        Picture result = new Picture(picture.height, picture.width);
        for (int y = 0; y < picture.height; y++) {
            for (int x = 0; x < picture.width; x++) {
                result.pixels[x * result.width + result.width - 1 - y] = picture.pixels[y * picture.width + x];
            }
        }
        return result;
    }

    /** To another size; each pixel is mixed of four, in 256 parts. */
    static Picture scaled(Picture picture, int width, int height) {
        Picture result = new Picture(width, height);
        for (int y = 0; y < height; y++) {
            int fromY = (int) ((long) y * (picture.height - 1) * 256 / height);
            int row = (fromY >> 8) * picture.width;
            for (int x = 0; x < width; x++) {
                int fromX = (int) ((long) x * (picture.width - 1) * 256 / width);
                int at = row + (fromX >> 8);
                int upper = mixed(picture.pixels[at], picture.pixels[at + 1], fromX & 255);
                int lower = mixed(picture.pixels[at + picture.width], picture.pixels[at + picture.width + 1], fromX & 255);
                result.pixels[y * width + x] = mixed(upper, lower, fromY & 255);
            }
        }
        return result;
    }

    private static int mixed(int a, int b, int part) {
        int redAndBlue = ((a & 0xff00ff) * (256 - part) + (b & 0xff00ff) * part) >>> 8 & 0xff00ff;
        int green = ((a & 0x00ff00) * (256 - part) + (b & 0x00ff00) * part) >>> 8 & 0x00ff00;
        return redAndBlue | green;
    }
}
