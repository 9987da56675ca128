import java.nio.charset.StandardCharsets;
import java.util.Locale;

import org.teavm.interop.Export;

public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        building();
        searching();
        unicode();
        numbers();
        anagrams();
    }

    private static void building() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 50_000; i++) text.append(i).append(i % 2 == 0 ? ", " : "; ");
        System.out.println("built: " + text.length() + " characters, hash " + text.toString().hashCode());
        text.setLength(30);
        System.out.println("start: " + text + ", reversed: " + text.reverse());
        text.insert(0, '<').append('>').deleteCharAt(1).replace(2, 5, "***");
        System.out.println("edited: " + text);

        // Joining one character at a time is slow on purpose: it makes garbage of every length.
        String grown = "";
        for (int i = 0; i < 3_000; i++) grown += (char) ('a' + i % 26);
        System.out.println("grown: " + grown.length() + " " + grown.substring(2_990) + " " + grown.hashCode());
    }

    private static void searching() {
        String line = "name=Ada; born=1815; field=mathematics; note=; name=again";
        for (String field : line.split("; ")) System.out.print(field.replace('=', ':') + "|");
        System.out.println();
        System.out.println(line.indexOf("born") + " " + line.lastIndexOf("name") + " " + line.contains("none")
                + " " + line.startsWith("name") + " " + line.endsWith("again") + " " + "apple".compareTo("apricot"));
        System.out.println("'" + "  both ends \n".trim() + "' " + String.join("-", "a", "b", "c") + " " + "Ab".equalsIgnoreCase("aB"));
        System.out.println("2024-05-17 and 1999-12-31".replaceAll("(\\d+)-(\\d+)-(\\d+)", "$3.$2.$1"));
        System.out.println("a1b22c333".matches("([a-z]\\d+)+") + " " + "a1b22c333d".split("\\d+").length);
    }

    private static void unicode() {
        String text = "Grün, Καλημέρα, Привет, 你好, 🎻🎺";
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        System.out.println(text + ": " + text.length() + " units, " + text.codePointCount(0, text.length()) + " points, "
                + bytes.length + " bytes, back again: " + new String(bytes, StandardCharsets.UTF_8).equals(text));
        System.out.println(text.toUpperCase(Locale.ROOT) + " " + text.toLowerCase(Locale.ROOT));
        System.out.println(Character.isLetter('ß') + " " + Character.isDigit('٣') + " " + Integer.toHexString(text.codePointAt(text.length() - 2)));
    }

    private static void numbers() {
        System.out.println(Integer.MIN_VALUE + " " + Long.MAX_VALUE + " " + Integer.toBinaryString(42) + " " + Long.toHexString(-1L));
        System.out.println(Integer.parseInt("-7f", 16) + " " + Long.parseLong("9000000000") + " " + Integer.toString(12345, 36));
        System.out.println(0.1 + 0.2 + " " + 1.0 / 3 + " " + 1e10 + " " + -2.5f + " " + Double.parseDouble("1e-3") + " " + 0.0 / 0);
        System.out.println(String.format("%5d|%-6s|%05d|%x|%.3f", 42, "ab", 42, 255, Math.PI));
        long digits = 0;
        for (int i = 0; i < 200_000; i++) digits += Long.toString((long) i * i).length();
        System.out.println("digits: " + digits);
    }

    private static void anagrams() {
        java.util.Map<String, Integer> groups = new java.util.TreeMap<>();
        for (int i = 0; i < 40_000; i++) {
            char[] letters = Integer.toString(i, 7).toCharArray();
            java.util.Arrays.sort(letters);
            groups.merge(new String(letters), 1, Integer::sum);
        }
        System.out.println("anagrams: " + groups.size() + " groups, 012345 has " + groups.get("012345"));
    }
}
