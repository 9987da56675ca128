import java.io.StringReader;

import org.luaj.vm2.Globals;
import org.luaj.vm2.LoadState;
import org.luaj.vm2.LuaError;
import org.luaj.vm2.LuaTable;
import org.luaj.vm2.LuaValue;
import org.luaj.vm2.Varargs;
import org.luaj.vm2.compiler.LuaC;
import org.luaj.vm2.lib.BaseLib;
import org.luaj.vm2.lib.MathLib;
import org.luaj.vm2.lib.PackageLib;
import org.luaj.vm2.lib.StringLib;
import org.luaj.vm2.lib.TableLib;
import org.luaj.vm2.lib.VarArgFunction;
import org.teavm.interop.Export;

/** Drives LuaJ: an interpreter of Lua, written in Java, compiled to Wasm, runs Lua scripts. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        Globals globals = new Globals();
        globals.load(new BaseLib());
        globals.load(new PackageLib());
        globals.load(new TableLib());
        globals.load(new StringLib());
        globals.load(new MathLib());
        LoadState.install(globals);
        LuaC.install(globals);
        // Lua's own print looks for a console that a Wasm host need not have.
        globals.set("print", new VarArgFunction() {
            @Override
            public Varargs invoke(Varargs args) {
                StringBuilder line = new StringBuilder();
                for (int i = 1; i <= args.narg(); i++) line.append(i > 1 ? "\t" : "").append(args.arg(i).tojstring());
                System.out.println(line);
                return LuaValue.NONE;
            }
        });
        for (String script : Scripts.ALL) {
            try {
                globals.load(new StringReader(script), "script").call();
            } catch (LuaError e) {
                System.out.println("Lua error: " + e.getMessage());
            }
        }
        LuaTable table = globals.get("shared").checktable();
        System.out.println("from Java: " + table.get("answer").toint() + " " + table.length());
    }
}
