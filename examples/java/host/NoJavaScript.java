import java.util.logging.Level;
import java.util.logging.LogRecord;

import org.teavm.model.ClassHolder;
import org.teavm.model.ClassHolderTransformer;
import org.teavm.model.ClassHolderTransformerContext;
import org.teavm.model.ElementModifier;
import org.teavm.model.MethodHolder;
import org.teavm.model.emit.ProgramEmitter;

/**
 * Replaces the few methods of TeaVM's class library that call JavaScript in every program, or wherever something is
 * logged, so that a module needs no more than a handful of plain functions from its host. The price: stack traces are
 * empty, and nanoTime has the resolution of currentTimeMillis. Loggers print to standard error.
 */
public final class NoJavaScript implements ClassHolderTransformer {
    @Override
    public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
        if (type.getName().equals("java.lang.Throwable")) {
            for (MethodHolder method : type.getMethods()) {
                if (method.getName().equals("fillInStackTrace")) {
                    ProgramEmitter body = ProgramEmitter.create(method, context.getHierarchy());
                    body.var(0, type).returnValue();
                } else if (method.getName().equals("ensureStackTrace")) {
                    ProgramEmitter.create(method, context.getHierarchy()).exit();
                }
            }
        } else if (type.getName().equals("java.lang.System")) {
            for (MethodHolder method : type.getMethods()) {
                if (!method.getName().equals("nanoTime")) continue;
                method.getModifiers().remove(ElementModifier.NATIVE);
                ProgramEmitter body = ProgramEmitter.create(method, context.getHierarchy());
                body.invoke(System.class, "currentTimeMillis", long.class).mul(body.constant(1_000_000L)).returnValue();
            }
        } else if (type.getName().equals("java.util.logging.Logger")) {
            for (MethodHolder method : type.getMethods()) {
                if (!method.getName().equals("log") || method.parameterCount() != 1) continue;
                ProgramEmitter body = ProgramEmitter.create(method, context.getHierarchy());
                body.invoke(Log.class, "print", body.var(1, LogRecord.class));
                body.exit();
            }
        }
    }

    /** In place of a browser's console: standard error. A part of the program, not of its compiler. */
    public static final class Log {
        private Log() {
        }

        /** Prints a record, if it is of a level that a JVM shows, and the exception that it tells of. */
        public static void print(LogRecord record) {
            if (record.getLevel().intValue() < Level.INFO.intValue()) return;
            String message = record.getMessage();
            Object[] parameters = record.getParameters();
            for (int i = 0; parameters != null && i < parameters.length; i++)
                message = message.replace("{" + i + "}", String.valueOf(parameters[i]));
            System.err.println(record.getLevel().getName() + ": " + message);
            if (record.getThrown() != null) record.getThrown().printStackTrace();
        }
    }
}
