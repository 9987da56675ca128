import java.util.Arrays;

import org.teavm.interop.Export;

/** Processes a picture: arrays of pixels, of bytes and of sums, by rows and by columns. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(180);
    }

    /** The work for a picture of so many rows. */
    @Export(name = "sized")
    public static void sized(int height) {
        Picture picture = Picture.scene(height * 4 / 3, height, new Numbers(12));
        report("scene", picture);
        Picture soft = Filters.blurred(Filters.blurred(picture, 7), 3);
        report("blurred", soft);
        report("turned", Transforms.turned(soft));
        report("scaled", Transforms.scaled(soft, height * 5 / 3, height * 3 / 2));
        Gray gray = Gray.of(picture);
        report("edges", Filters.edges(gray));
        report("equalised", Filters.equalised(gray));
        report("dithered", Filters.dithered(gray));
        report("eroded", Filters.eroded(gray, 5));
        int[] sizes = Regions.sizes(Filters.dithered(Filters.equalised(gray)));
        System.out.println("regions: " + sizes.length + ", the largest " + sizes[sizes.length - 1]);
    }

    private static void report(String name, Picture picture) {
        System.out.println(name + ": " + picture.width + " x " + picture.height + ", hash " + Arrays.hashCode(picture.pixels));
    }

    private static void report(String name, Gray gray) {
        System.out.println(name + ": hash " + Arrays.hashCode(gray.levels));
    }
}
