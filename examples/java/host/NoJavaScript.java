import org.teavm.model.ClassHolder;
import org.teavm.model.ClassHolderTransformer;
import org.teavm.model.ClassHolderTransformerContext;
import org.teavm.model.ElementModifier;
import org.teavm.model.MethodHolder;
import org.teavm.model.emit.ProgramEmitter;

/**
 * Replaces the few methods of TeaVM's class library that call JavaScript in every program, so that a module needs no
 * more than a handful of plain functions from its host. The price: stack traces are empty, and nanoTime has the
 * resolution of currentTimeMillis.
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
        }
    }
}
