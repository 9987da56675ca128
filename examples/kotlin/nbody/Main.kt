import host.arguments
import kotlin.math.PI
import kotlin.math.sqrt

/** The outer planets around the sun; prints the energy of the system, which should hardly change. */
fun main() {
    val steps = arguments().firstOrNull()?.toInt() ?: 5_000_000
    val bodies = solarSystem()
    println("energy before: ${billionths(energy(bodies))}")
    repeat(steps) { advance(bodies, 0.01) }
    println("energy after $steps steps: ${billionths(energy(bodies))}")
}

private const val SOLAR_MASS = 4 * PI * PI
private const val DAYS = 365.24

private class Body(var x: Double, var y: Double, var z: Double, vx: Double, vy: Double, vz: Double, mass: Double) {
    var vx = vx * DAYS
    var vy = vy * DAYS
    var vz = vz * DAYS
    val mass = mass * SOLAR_MASS
}

private fun solarSystem(): Array<Body> {
    val sun = Body(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    val planets = arrayOf(
        Body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694, 0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609),
        Body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411899, 0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812),
        Body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618, 0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298),
        Body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322, 0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451),
    )
    // The sun moves so that the whole stays where it is.
    for (p in planets) {
        sun.vx -= p.vx * p.mass / SOLAR_MASS
        sun.vy -= p.vy * p.mass / SOLAR_MASS
        sun.vz -= p.vz * p.mass / SOLAR_MASS
    }
    return arrayOf(sun, *planets)
}

private fun advance(bodies: Array<Body>, dt: Double) {
    for (i in bodies.indices) {
        val a = bodies[i]
        for (j in i + 1 until bodies.size) {
            val b = bodies[j]
            val dx = a.x - b.x
            val dy = a.y - b.y
            val dz = a.z - b.z
            val square = dx * dx + dy * dy + dz * dz
            val pull = dt / (square * sqrt(square))
            a.vx -= dx * b.mass * pull
            a.vy -= dy * b.mass * pull
            a.vz -= dz * b.mass * pull
            b.vx += dx * a.mass * pull
            b.vy += dy * a.mass * pull
            b.vz += dz * a.mass * pull
        }
    }
    for (b in bodies) {
        b.x += dt * b.vx
        b.y += dt * b.vy
        b.z += dt * b.vz
    }
}

private fun energy(bodies: Array<Body>): Double {
    var sum = 0.0
    for (i in bodies.indices) {
        val a = bodies[i]
        sum += 0.5 * a.mass * (a.vx * a.vx + a.vy * a.vy + a.vz * a.vz)
        for (j in i + 1 until bodies.size) {
            val b = bodies[j]
            val dx = a.x - b.x
            val dy = a.y - b.y
            val dz = a.z - b.z
            sum -= a.mass * b.mass / sqrt(dx * dx + dy * dy + dz * dz)
        }
    }
    return sum
}

/** Nine decimal places, without a formatter. */
private fun billionths(value: Double): String {
    val scaled = kotlin.math.round(-value * 1e9).toLong()
    return "-" + scaled / 1_000_000_000 + "." + (scaled % 1_000_000_000).toString().padStart(9, '0')
}
