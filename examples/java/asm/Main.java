import java.util.ArrayList;
import java.util.List;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.teavm.interop.Export;

/** Drives ASM: generates Java class files in memory, reads them back, copies them. */
public final class Main {
    private static final int METHODS = 300;

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        long bytes = 0;
        int hash = 0;
        int instructions = 0;
        for (int round = 0; round < 40; round++) {
            byte[] original = generate("example/Generated" + round, METHODS);
            Counter counter = new Counter();
            new ClassReader(original).accept(counter, 0);
            ClassWriter copy = new Writer(0);
            new ClassReader(original).accept(copy, 0);
            byte[] copied = copy.toByteArray();
            if (copied.length != original.length) System.out.println("the copy differs");
            bytes += copied.length;
            instructions += counter.instructions;
            for (byte b : copied) hash = hash * 31 + b;
            if (round == 0) System.out.println(counter.names.subList(0, 6) + " of " + counter.names.size() + " members");
        }
        System.out.println(bytes + " bytes, " + instructions + " instructions, hash " + hash);
    }

    private static byte[] generate(String name, int methods) {
        ClassWriter writer = new Writer(ClassWriter.COMPUTE_MAXS);
        writer.visit(Opcodes.V1_6, Opcodes.ACC_PUBLIC, name, null, "java/lang/Object", new String[] {"java/lang/Runnable"});
        writer.visitField(Opcodes.ACC_PRIVATE, "total", "J", null, null).visitEnd();
        for (int i = 0; i < methods; i++) sumOfSquares(writer, name, i);
        writer.visitEnd();
        return writer.toByteArray();
    }

    /** A method with a loop: long squaresN(int limit) { long sum = 0; for (...) sum += i * i + N; return sum; } */
    private static void sumOfSquares(ClassWriter writer, String owner, int n) {
        MethodVisitor code = writer.visitMethod(Opcodes.ACC_PUBLIC, "squares" + n, "(I)J", null, null);
        Label test = new Label();
        Label body = new Label();
        code.visitCode();
        code.visitInsn(Opcodes.LCONST_0);
        code.visitVarInsn(Opcodes.LSTORE, 2);
        code.visitInsn(Opcodes.ICONST_0);
        code.visitVarInsn(Opcodes.ISTORE, 4);
        code.visitJumpInsn(Opcodes.GOTO, test);
        code.visitLabel(body);
        code.visitVarInsn(Opcodes.LLOAD, 2);
        code.visitVarInsn(Opcodes.ILOAD, 4);
        code.visitInsn(Opcodes.DUP);
        code.visitInsn(Opcodes.IMUL);
        code.visitLdcInsn(n * 1000);
        code.visitInsn(Opcodes.IADD);
        code.visitInsn(Opcodes.I2L);
        code.visitInsn(Opcodes.LADD);
        code.visitVarInsn(Opcodes.LSTORE, 2);
        code.visitIincInsn(4, 1);
        code.visitLabel(test);
        code.visitVarInsn(Opcodes.ILOAD, 4);
        code.visitVarInsn(Opcodes.ILOAD, 1);
        code.visitJumpInsn(Opcodes.IF_ICMPLT, body);
        code.visitVarInsn(Opcodes.ALOAD, 0);
        code.visitVarInsn(Opcodes.LLOAD, 2);
        code.visitFieldInsn(Opcodes.PUTFIELD, owner, "total", "J");
        code.visitVarInsn(Opcodes.LLOAD, 2);
        code.visitInsn(Opcodes.LRETURN);
        code.visitMaxs(0, 0);
        code.visitEnd();
    }

    /** ASM itself would load classes to compare them, which a compiled program cannot. */
    private static final class Writer extends ClassWriter {
        Writer(int flags) {
            super(flags);
        }

        @Override
        protected String getCommonSuperClass(String a, String b) {
            return "java/lang/Object";
        }
    }

    private static final class Counter extends ClassVisitor {
        final List<String> names = new ArrayList<>();
        int instructions;

        Counter() {
            super(Opcodes.ASM9);
        }

        @Override
        public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
            names.add(name);
            return null;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            names.add(name + descriptor);
            return new MethodVisitor(Opcodes.ASM9) {
                @Override
                public void visitInsn(int opcode) {
                    instructions++;
                }

                @Override
                public void visitVarInsn(int opcode, int index) {
                    instructions++;
                }

                @Override
                public void visitJumpInsn(int opcode, Label label) {
                    instructions++;
                }

                @Override
                public void visitLdcInsn(Object value) {
                    instructions++;
                }
            };
        }
    }
}
