import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import com.eclipsesource.json.ParseException;
import com.eclipsesource.json.WriterConfig;
import org.teavm.interop.Export;

/** Drives minimal-json: generated documents are printed, parsed and compared. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        samples();
        errors();
        roundTrips(10, 3_000);
    }

    private static void samples() {
        JsonObject value = Json.parse("{ \"list\": [1, -2.5e+3, true, null, \"\\u00e9\\ud83c\\udfb5\\n\"], \"empty\": {} }").asObject();
        System.out.println(value);
        value.add("more", new JsonArray().add(1L << 40).add("text").add(false));
        System.out.println(value.toString(WriterConfig.PRETTY_PRINT));
        System.out.println(value.get("list").asArray().get(4).asString().length() + " " + value.names());
    }

    private static void errors() {
        for (String text : new String[] {"", "{", "[1,]", "\"open", "tru", "01", "[1] 2", "\"\\x\""}) {
            try {
                System.out.println(text + ": " + Json.parse(text));
            } catch (ParseException e) {
                System.out.println(text + ": " + e.getMessage());
            }
        }
    }

    private static void roundTrips(int rounds, int records) {
        long characters = 0;
        int equal = 0;
        int hash = 0;
        for (int round = 0; round < rounds; round++) {
            JsonValue document = document(new Numbers(round), records);
            String text = document.toString(round % 2 == 0 ? WriterConfig.MINIMAL : WriterConfig.PRETTY_PRINT);
            JsonValue back = Json.parse(text);
            if (back.equals(document)) equal++;
            characters += text.length();
            hash = hash * 31 + back.toString().hashCode();
        }
        System.out.println(rounds + " documents, " + characters + " characters, " + equal + " equal after the round trip, hash " + hash);
    }

    private static JsonValue document(Numbers random, int records) {
        JsonArray all = new JsonArray();
        for (int i = 0; i < records; i++) {
            JsonArray tags = new JsonArray();
            for (int t = random.nextInt(5); t > 0; t--) tags.add("tag" + random.nextInt(100));
            all.add(new JsonObject().add("id", i).add("name", "n" + random.nextInt(1_000_000)).add("active", random.nextBoolean())
                    .add("big", random.nextLong()).add("note", random.nextInt(3) == 0 ? Json.NULL : Json.value("a\t\"b\"\\ é 🎵"))
                    .add("tags", tags));
        }
        return new JsonObject().add("version", 1).add("records", all);
    }
}
