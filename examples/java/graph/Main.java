import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;

import org.teavm.interop.Export;

/** Searches in a road network of boxed keys, lists of edges and nodes that a search makes and forgets. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(50);
    }

    /** The work for a network of so many places in each direction. */
    @Export(name = "sized")
    public static void sized(int side) {
        Network network = Network.grid(side, new Numbers(9));
        System.out.println(network.adjacent.size() + " places, " + network.roads() + " roads");
        Numbers random = new Numbers(10);
        long steps = 0;
        long length = 0;
        List<Integer> route = List.of();
        for (int i = 0; i < 12; i++) {
            int from = random.nextInt(side * side);
            int to = random.nextInt(side * side);
            steps += network.fewestRoads(from, to);
            route = network.shortest(from, to);
            length += network.length(route);
        }
        System.out.println("12 searches: " + steps + " roads at fewest, length " + length + " at shortest");
        System.out.println("the last route has " + route.size() + " places: "
                + (route.size() > 6 ? route.subList(0, 6) + " and on" : route.toString()));
        System.out.println("parts without the longer roads: " + network.parts(60));
    }

    private static final class Road {
        final Integer to;
        final Integer length;

        Road(Integer to, Integer length) {
            this.to = to;
            this.length = length;
        }
    }

    /** A place that a search has reached, and from where. */
    private static final class Visit implements Comparable<Visit> {
        final Integer place;
        final Long distance;
        final Visit previous;

        Visit(Integer place, Long distance, Visit previous) {
            this.place = place;
            this.distance = distance;
            this.previous = previous;
        }

        @Override public int compareTo(Visit other) {
            int order = distance.compareTo(other.distance);
            return order != 0 ? order : place.compareTo(other.place);
        }
    }

    private static final class Network {
        final Map<Integer, List<Road>> adjacent = new HashMap<>();

        static Network grid(int side, Numbers random) {
            Network network = new Network();
            for (int place = 0; place < side * side; place++) {
                if (place % side > 0) network.connect(place, place - 1, 1 + random.nextInt(100));
                if (place >= side) network.connect(place, place - side, 1 + random.nextInt(100));
                // A few roads lead far away.
                if (random.nextInt(40) == 0) network.connect(place, random.nextInt(place + 1), 500 + random.nextInt(500));
            }
            return network;
        }

        private void connect(int a, int b, int length) {
            adjacent.computeIfAbsent(a, key -> new ArrayList<>()).add(new Road(b, length));
            adjacent.computeIfAbsent(b, key -> new ArrayList<>()).add(new Road(a, length));
        }

        int roads() {
            int ends = 0;
            for (List<Road> roads : adjacent.values()) ends += roads.size();
            return ends / 2;
        }

        /** Breadth first. */
        int fewestRoads(Integer from, Integer to) {
            Map<Integer, Integer> steps = new HashMap<>();
            ArrayDeque<Integer> queue = new ArrayDeque<>();
            steps.put(from, 0);
            queue.add(from);
            while (!steps.containsKey(to)) {
                Integer place = queue.remove();
                for (Road road : adjacent.get(place)) {
                    if (steps.putIfAbsent(road.to, steps.get(place) + 1) == null) queue.add(road.to);
                }
            }
            return steps.get(to);
        }

        /** Dijkstra's algorithm; a place that is reached on a better way stands in the queue twice. */
        List<Integer> shortest(Integer from, Integer to) {
            Map<Integer, Visit> done = new HashMap<>();
            PriorityQueue<Visit> queue = new PriorityQueue<>();
            queue.add(new Visit(from, 0L, null));
            while (!done.containsKey(to)) {
                Visit visit = queue.remove();
                if (done.putIfAbsent(visit.place, visit) != null) continue;
                for (Road road : adjacent.get(visit.place)) {
                    if (!done.containsKey(road.to)) queue.add(new Visit(road.to, visit.distance + road.length, visit));
                }
            }
            List<Integer> route = new ArrayList<>();
            for (Visit visit = done.get(to); visit != null; visit = visit.previous) route.add(visit.place);
            Collections.reverse(route);
            return route;
        }

        long length(List<Integer> route) {
            long sum = 0;
            for (int i = 1; i < route.size(); i++) {
                Integer next = route.get(i);
                int best = Integer.MAX_VALUE;
                for (Road road : adjacent.get(route.get(i - 1))) {
                    if (road.to.equals(next)) best = Math.min(best, road.length);
                }
                sum += best;
            }
            return sum;
        }

        /** How many parts the network falls into if roads longer than this are closed. */
        int parts(int longest) {
            Map<Integer, Integer> part = new HashMap<>();
            int parts = 0;
            for (Integer start = 0; start < adjacent.size(); start++) {
                if (part.containsKey(start)) continue;
                ArrayDeque<Integer> stack = new ArrayDeque<>();
                stack.push(start);
                while (!stack.isEmpty()) {
                    Integer place = stack.pop();
                    if (part.putIfAbsent(place, parts) != null) continue;
                    for (Road road : adjacent.get(place)) if (road.length <= longest) stack.push(road.to);
                }
                parts++;
            }
            return parts;
        }
    }
}
