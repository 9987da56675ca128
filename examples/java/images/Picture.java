/** Colours, eight bits each of red, green and blue in one integer. */
final class Picture {
    final int width;
    final int height;
    final int[] pixels;

    Picture(int width, int height) {
        this.width = width;
        this.height = height;
        this.pixels = new int[width * height];
    }

    /** Discs before a gradient, with noise. */
    static Picture scene(int width, int height, Numbers random) {
        Picture picture = new Picture(width, height);
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                int noise = random.nextInt(16);
                picture.pixels[y * width + x] = (x * 239 / width + noise) << 16 | (y * 239 / height + noise) << 8 | 64 + noise;
            }
        }
        for (int i = 0; i < 40; i++) picture.disc(random);
        return picture;
    }

    private void disc(Numbers random) {
        int radius = 3 + random.nextInt(height / 8);
        int cx = random.nextInt(width);
        int cy = random.nextInt(height);
        int colour = random.nextInt(1 << 24);
        for (int y = Math.max(0, cy - radius); y < Math.min(height, cy + radius); y++) {
            for (int x = Math.max(0, cx - radius); x < Math.min(width, cx + radius); x++) {
                if ((x - cx) * (x - cx) + (y - cy) * (y - cy) <= radius * radius) pixels[y * width + x] = colour;
            }
        }
    }
}
