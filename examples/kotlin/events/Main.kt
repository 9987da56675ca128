import host.arguments
import kotlin.random.Random

/** Simulates a clinic: patients arrive, wait, are treated by a few doctors, come back or give up. */
fun main() {
    val patients = arguments().firstOrNull()?.toInt() ?: 20_000
    for (doctors in 2..4) {
        val clinic = Clinic(doctors, Random(doctors))
        clinic.open(patients)
        println("$doctors doctors: ${clinic.summary()}")
    }
}

class Patient(var arrived: Long) {
    var visits = 0
    /** Given up or being treated: what else was planned for the patient's waiting is void. */
    var settled = false
}

/** The rules: each event, when its time has come, makes others. */
class Clinic(private val doctors: Int, private val random: Random) {
    private val agenda = Agenda()
    private val waiting = ArrayDeque<Patient>()
    private var busy = 0
    private var expected = 0
    private var treated = 0
    private var returned = 0
    private var gaveUp = 0
    private var waited = 0L
    private var now = 0L

    fun open(patients: Int) {
        expected = patients
        agenda.add(Arrival(0, Patient(0)))
        while (true) {
            val event = agenda.next() ?: break
            now = event.time
            event.happen(this)
        }
    }

    fun arrive(patient: Patient) {
        if (--expected > 0) {
            val time = now + 1 + random.nextInt(100)
            agenda.add(Arrival(time, Patient(time)))
        }
        queue(patient)
    }

    fun comeBack(patient: Patient) {
        patient.arrived = now
        patient.settled = false
        queue(patient)
    }

    private fun queue(patient: Patient) {
        patient.visits++
        waiting.addLast(patient)
        // Most of these come to nothing, and lie in the agenda until their time has passed.
        agenda.add(Impatience(now + 400 + random.nextInt(800), patient, patient.visits))
        treatNext()
    }

    fun leave(patient: Patient) {
        busy--
        treated++
        if (patient.visits < 3 && random.nextInt(5) == 0) {
            returned++
            agenda.add(Return(now + 1_000 + random.nextInt(2_000), patient))
        }
        treatNext()
    }

    fun giveUp(patient: Patient, visit: Int) {
        if (patient.settled || patient.visits != visit) return
        patient.settled = true
        gaveUp++
    }

    private fun treatNext() {
        while (busy < doctors) {
            val patient = waiting.removeFirstOrNull() ?: return
            if (patient.settled) continue
            patient.settled = true
            busy++
            waited += now - patient.arrived
            agenda.add(Departure(now + 50 + random.nextInt(150), patient))
        }
    }

    fun summary() = "treated $treated, came back $returned, gave up $gaveUp, waited $waited, " +
        "${agenda.events} events until $now, at most ${agenda.longest} planned"
}

abstract class Event(val time: Long) {
    /** Events of the same time happen in the order in which they were planned. */
    var number = 0

    abstract fun happen(clinic: Clinic)

    fun isBefore(other: Event) = time < other.time || (time == other.time && number < other.number)
}

class Arrival(time: Long, private val patient: Patient) : Event(time) {
    override fun happen(clinic: Clinic) = clinic.arrive(patient)
}

class Departure(time: Long, private val patient: Patient) : Event(time) {
    override fun happen(clinic: Clinic) = clinic.leave(patient)
}

class Return(time: Long, private val patient: Patient) : Event(time) {
    override fun happen(clinic: Clinic) = clinic.comeBack(patient)
}

class Impatience(time: Long, private val patient: Patient, private val visit: Int) : Event(time) {
    override fun happen(clinic: Clinic) = clinic.giveUp(patient, visit)
}
