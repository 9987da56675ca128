/** Brightness, a byte for each pixel. */
final class Gray {
    final int width;
    final int height;
    final byte[] levels;

    Gray(int width, int height) {
        this.width = width;
        this.height = height;
        this.levels = new byte[width * height];
    }

    static Gray of(Picture picture) {
        Gray gray = new Gray(picture.width, picture.height);
        for (int i = 0; i < gray.levels.length; i++) {
            int pixel = picture.pixels[i];
            gray.levels[i] = (byte) ((77 * (pixel >> 16) + 150 * (pixel >> 8 & 255) + 29 * (pixel & 255)) >> 8);
        }
        return gray;
    }

    int at(int x, int y) {
        return levels[y * width + x] & 255;
    }
}
