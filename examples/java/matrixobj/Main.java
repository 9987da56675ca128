import org.teavm.interop.Export;

/** A particle system over small immutable vectors and matrices: every operation makes an object that lives for a moment. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(60);
    }

    /** So many steps of the simulation. */
    @Export(name = "sized")
    public static void sized(int steps) {
        Numbers random = new Numbers(4);
        Particle[] particles = new Particle[64];
        for (int i = 0; i < particles.length; i++) particles[i] = new Particle(vector(random), vector(random).times(0.1));
        Matrix turn = Matrix.rotation(0.6, 0.8).times(Matrix.rotation(0.28, 0.96).transposed());
        Matrix view = Matrix.IDENTITY;
        Vector seen = Vector.ZERO;
        for (int step = 0; step < steps; step++) {
            Particle[] next = new Particle[particles.length];
            for (int i = 0; i < particles.length; i++) next[i] = particles[i].moved(particles, 0.01);
            particles = next;
            view = turn.times(view);
            Vector centre = Vector.ZERO;
            for (Particle particle : particles) centre = centre.plus(view.times(particle.place));
            seen = seen.times(0.5).plus(centre.times(1.0 / particles.length));
        }
        Vector momentum = Vector.ZERO;
        for (Particle particle : particles) momentum = momentum.plus(particle.speed);
        System.out.println(steps + " steps of " + particles.length + " particles");
        System.out.println("seen at " + seen);
        System.out.println("momentum " + momentum);
        System.out.println("view " + view.row(0) + " " + view.row(1) + " " + view.row(2));
        System.out.println("volume of the view " + thousandths(view.determinant()));
    }

    private static Vector vector(Numbers random) {
        return new Vector(random.nextFloat() - 0.5, random.nextFloat() - 0.5, random.nextFloat() - 0.5);
    }

    /** Rounded, and free of each platform's way to print fractions. */
    static long thousandths(double value) {
        return Math.round(value * 1000);
    }

    private static final class Particle {
        final Vector place;
        final Vector speed;

        Particle(Vector place, Vector speed) {
            this.place = place;
            this.speed = speed;
        }

        /** This particle a moment later, drawn by its neighbours. Square roots are the only function that is not exact. */
        Particle moved(Particle[] all, double time) {
            Vector force = Vector.ZERO;
            for (Particle other : all) {
                if (other == this) continue;
                Vector way = other.place.minus(place);
                double square = way.dot(way) + 0.05;
                force = force.plus(way.times(1 / (square * Math.sqrt(square))));
            }
            Vector faster = speed.plus(force.times(time * 0.01));
            return new Particle(place.plus(faster.times(time)), faster);
        }
    }

    private static final class Vector {
        static final Vector ZERO = new Vector(0, 0, 0);

        final double x;
        final double y;
        final double z;

        Vector(double x, double y, double z) {
            this.x = x;
            this.y = y;
            this.z = z;
        }

        Vector plus(Vector other) {
            return new Vector(x + other.x, y + other.y, z + other.z);
        }

        Vector minus(Vector other) {
            return new Vector(x - other.x, y - other.y, z - other.z);
        }

        Vector times(double factor) {
            return new Vector(x * factor, y * factor, z * factor);
        }

        double dot(Vector other) {
            return x * other.x + y * other.y + z * other.z;
        }

        Vector cross(Vector other) {
            return new Vector(y * other.z - z * other.y, z * other.x - x * other.z, x * other.y - y * other.x);
        }

        @Override public String toString() {
            return "(" + thousandths(x) + ", " + thousandths(y) + ", " + thousandths(z) + ")";
        }
    }

    /** Three columns. */
    private static final class Matrix {
        static final Matrix IDENTITY = new Matrix(new Vector(1, 0, 0), new Vector(0, 1, 0), new Vector(0, 0, 1));

        private final Vector[] columns;

        Matrix(Vector... columns) {
            this.columns = columns;
        }

        /** About the axis z, then about the axis x, by the angle of this cosine and sine. */
        static Matrix rotation(double cos, double sin) {
            Matrix z = new Matrix(new Vector(cos, sin, 0), new Vector(-sin, cos, 0), new Vector(0, 0, 1));
            return z.times(new Matrix(new Vector(1, 0, 0), new Vector(0, cos, sin), new Vector(0, -sin, cos)));
        }

        Vector times(Vector v) {
            return columns[0].times(v.x).plus(columns[1].times(v.y)).plus(columns[2].times(v.z));
        }

        Matrix times(Matrix other) {
            return new Matrix(times(other.columns[0]), times(other.columns[1]), times(other.columns[2]));
        }

        Matrix transposed() {
            return new Matrix(row(0), row(1), row(2));
        }

        Vector row(int index) {
            Vector unit = IDENTITY.columns[index];
            return new Vector(columns[0].dot(unit), columns[1].dot(unit), columns[2].dot(unit));
        }

        double determinant() {
            return columns[0].cross(columns[1]).dot(columns[2]);
        }
    }
}
