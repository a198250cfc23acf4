"""Write fixtures/study/prompts.jsonl: eight records of invented places, each with a fact far back and one near the end.

    python scripts/study_prompts.py > fixtures/study/prompts.jsonl

Every sentence was written for this project; which sentence stands where is drawn from SHA-256, so that any machine
writes the same bytes. A prompt is about 1,000 tokens of SmolLM2. `distance_tokens` is the declared, rounded distance
of a reference; the runner counts the tokens that really lie between and records both.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

FAR_TOKENS, NEAR_TOKENS = 900, 80


@dataclass(frozen=True, slots=True)
class Fact:
    """Something said once. `prefix` is fed after the question, so that the answer is made by the compressed cache."""

    said: str
    question: str
    prefix: str
    answer: str


@dataclass(frozen=True, slots=True)
class Text:
    """One record: its beginning, the lines that fill it, its end, and the two facts."""

    id: str
    opening: str
    far: Fact
    stamps: tuple[str, ...]
    lines: tuple[str, ...]
    slots: dict[str, tuple[str, ...]]
    near: Fact
    closing: str
    entries: int


TEXTS = (
    Text(
        "harbour-stores",
        "Stores ledger of the harbour office at Penmarrow, kept by the clerk of the north quay. Each entry gives the "
        "day, what came in or went out, and who signed for it. Goods that wait longer than a week are moved to the "
        "upper loft, because the lower sheds take water at spring tides.",
        Fact(
            "The key to the upper loft hangs in locker 4172, behind the spare lamps.",
            "Which locker holds the key to the upper loft?",
            "Locker",
            " 4172",
        ),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
        (
            "{count} coils of {rope} came in from the {boat} and were hung in the dry end of shed {shed}.",
            "The {boat} took {count} tins of {paint} and two brushes, and {person} signed for them.",
            "{person} returned {count} lanterns, one with a cracked glass, and asked for wick by the yard.",
            "A barrow of {rope} was weighed twice, since {person} did not trust the scale after the frost.",
            "Shed {shed} was swept and {count} empty casks were rolled to the slip for the {boat}.",
            "{count} sacks of coal went to the pilot house; {person} noted that the sacks were damp at the seams.",
            "The {boat} lay alongside all day waiting for {paint}, which had gone to shed {shed} by mistake.",
            "{person} counted the fenders on the quay and found {count}, three fewer than in the spring.",
        ),
        {
            "count": ("six", "nine", "eleven", "fourteen", "twenty", "twenty-three", "thirty"),
            "rope": ("tarred hemp", "manila line", "old sisal", "braided cotton", "light wire"),
            "boat": ("Patient Ann", "Kittiwake", "Second Venture", "Marigold", "Grey Heron"),
            "shed": ("one", "two", "three", "five"),
            "paint": ("red lead", "grey primer", "boat varnish", "white gloss"),
            "person": ("Mr Tregaskis", "the mate", "Ivy Penhale", "old Corin", "the pilot's boy"),
        },
        Fact(
            "The inspector of weights will arrive on the ferry called Osprey, and he expects to be met.",
            "On which ferry will the inspector of weights arrive?",
            "The ferry is called",
            " Osprey",
        ),
        "The week closed quietly. The gate was locked at six, the tide board was wiped clean, and the book was left on "
        "the high desk for the clerk who has the early turn. He is asked to air the loft if the morning is dry, to "
        "write the wind in the margin, and to leave the stove unlit until the chimney has been looked at by the mason.",
        32,
    ),
    Text(
        "allotment-minutes",
        "Minutes of the allotment society of Lower Wexcombe, taken in the back room of the reading hall. Present were "
        "the chair, the treasurer, the seed steward and nineteen plot holders. The minutes of the previous meeting "
        "were read aloud and agreed, with one correction to the spelling of a hedge.",
        Fact(
            "The society elected Beatrix Hollowell as keeper of the water accounts for three years.",
            "Whom did the society elect as keeper of the water accounts?",
            "They elected",
            " Beatrix Hollowell",
        ),
        ("Item", "Further", "Next", "Then"),
        (
            "{person} reported that the {place} had been cleared of {weed} and that {count} barrows went to the heap.",
            "The meeting heard a complaint about {noise} near plot {plot}, and asked {person} to speak to the owner.",
            "{count} members wished to order {seed} together, and {person} offered to collect the money.",
            "It was agreed that the {place} be mended before the frost, at a cost of no more than {count} pounds.",
            "{person} showed a basket of {crop} and explained that the rows had been covered with old net curtains.",
            "Plot {plot} had stood empty since the summer, and {count} names were on the list for it.",
            "A letter was read about the {place}; {person} thought it too long, and the chair promised a short reply.",
            "The seed steward had {count} packets of {seed} left over and wished to give them to the school.",
        ),
        {
            "person": ("Mrs Arkwright", "the treasurer", "Dennis Pell", "the younger Miss Oke", "Mr Sandhu"),
            "place": ("lower path", "east gate", "tool shed", "dipping pond", "compost yard"),
            "weed": ("bindweed", "couch grass", "nettles", "mare's tail"),
            "count": ("four", "seven", "eight", "twelve", "fifteen", "eighteen"),
            "noise": ("a cockerel", "a radio", "bonfire smoke", "a loose tin roof"),
            "plot": ("three", "nine", "sixteen", "twenty-two", "thirty-one"),
            "seed": ("broad beans", "winter spinach", "early leeks", "blue peas", "salad burnet"),
            "crop": ("pale celery", "long carrots", "small turnips", "late lettuces"),
        },
        Fact(
            "The next meeting was fixed for the 27th of October, at half past seven.",
            "On which day of October is the next meeting?",
            "On the",
            " 27th of October",
        ),
        "There was no other business. The chair thanked those who had carried the benches and asked that cups be "
        "rinsed before the hall was shut. The treasurer stayed behind to count the tea money, which came to a little "
        "more than last time, and the seed steward took the notice board home to mend the hinge that had worked "
        "loose.",
        33,
    ),
    Text(
        "letter-from-the-survey",
        "Dear Henrietta, the rain has kept us in the hut for two days, so you shall have a long letter. The survey "
        "goes on, slower than the map office hoped and faster than the mules would like. We measure one side of a "
        "triangle, climb, and measure the next, and in the evening we copy the figures by lamp.",
        Fact(
            "You asked how high the camp is: the stone beside my bed is marked 2386 metres.",
            "How high is the camp, in metres?",
            "It is marked",
            " 2386",
        ),
        ("On Sunday", "The day after", "On Tuesday", "Later", "Towards evening", "At first light"),
        (
            "{person} carried the {tool} up to the {hill} and found that the cloud had come down before him.",
            "we ate {food} under the {hill} and listened to {person} tell the story of the {animal} once more.",
            "the path above the {hill} was gone, and {person} led us round by the {water}.",
            "I wrote {count} angles in the book and {person} read them back, finding only one that was wrong.",
            "a {animal} crossed the {water} in front of us, quite slowly, as though it had an appointment.",
            "the {tool} had to be dried by the stove, and {person} slept beside it like a nurse.",
            "we shared {food} with a shepherd, who had seen {count} strangers this year and remembered each of them.",
            "{person} sang while we built the cairn on the {hill}, and the echo was half a verse behind.",
        ),
        {
            "person": ("Lorenz", "the guide", "young Amadou", "our cook", "Professor Vey"),
            "tool": ("theodolite", "long chain", "barometer", "plane table"),
            "hill": ("Saddle", "Black Shoulder", "Three Sisters", "Widow's Tooth"),
            "food": ("cold rice", "flat bread and onions", "tinned peaches", "hard cheese"),
            "animal": ("fox", "marmot", "grey mule", "heron"),
            "water": ("upper stream", "tarn", "old canal", "waterfall"),
            "count": ("ten", "thirteen", "sixteen", "twenty-one", "forty"),
        },
        Fact(
            "Please send the new boots to the post office at Carradine, for nothing else reaches us.",
            "To which post office should the new boots be sent?",
            "To",
            " Carradine",
        ),
        "It is late now and the lamp is smoking. Give my love to the aunts and tell Oliver that I have kept the "
        "feather for him. If the weather clears we shall start for the western ridge in the morning, and there will "
        "be no letter for a fortnight, so do not worry when the postman walks past your gate without turning his "
        "head.",
        32,
    ),
    Text(
        "observatory-log",
        "Night log of the small observatory on Calder Moor. The observer on duty writes one line for each thing done, "
        "with the hour, and leaves the dome as it was found. The clock in the west room is eleven seconds fast and is "
        "not to be corrected, because a year of notes depends on it.",
        Fact(
            "The spare mirror was sent away for coating under the reference KW 5093.",
            "Under which reference was the spare mirror sent away?",
            "KW",
            " 5093",
        ),
        ("20h 10m", "20h 55m", "21h 30m", "22h 05m", "22h 40m", "23h 15m", "23h 50m", "00h 25m", "01h 00m"),
        (
            "{sky}; the {part} was moved by hand because the motor hummed and would not turn.",
            "{person} took {count} plates of {target}, the last of them spoiled by the lamp of a passing cart.",
            "{target} was low over the {side} wall, and the image boiled; {person} gave up after {count} minutes.",
            "dew on the {part}; it was wiped with a clean cloth, and {person} wrote the humidity in the other book.",
            "{sky}; {person} made tea and read the barometer, which had fallen by {count} tenths.",
            "a sheep stood in the {side} doorway and could not be persuaded; work on {target} stopped.",
            "the {part} was set on {target} again and {count} settings agreed to within a hair.",
            "{person} checked the {side} shutter, which rattles, and tied it with string for the {count} time.",
        ),
        {
            "sky": ("Thin cloud from the sea", "Clear and very still", "Haze up to the pole", "Stars sharp, some wind"),
            "part": ("finder", "dome ring", "eyepiece tray", "plate holder", "long tube"),
            "person": ("Miss Adeyemi", "the night assistant", "Dr Fenwick", "the student"),
            "count": ("five", "eight", "twelve", "fifteen", "eighteen"),
            "target": ("the double star in the Swan", "the faint comet", "the ring nebula", "Saturn", "the test field"),
            "side": ("north", "east", "south", "west"),
        },
        Fact(
            "The dome is now turned to bearing 318, and should be left there for the morning.",
            "To which bearing is the dome turned?",
            "Bearing",
            " 318",
        ),
        "The observer closed at a quarter past two. The plates are in the dark drawer, wrapped and numbered, and the "
        "stove has been banked with turf. Whoever comes next is asked to bring matches, to feed the cat that lives "
        "under the stairs, and to write larger, since the page for last night could be read by nobody, its author "
        "included.",
        27,
    ),
    Text(
        "bakery-rota",
        "Day book of the Millrace Bakery. The night shift writes down what was baked, what was short and what was "
        "promised, so that the morning shift need not wake anybody to ask. Prices are not written here. The oven "
        "nearest the wall runs hot and is used for crusts, the other for everything that has sugar in it.",
        Fact(
            "The recipe for the saffron loaf is kept inside the tin marked Juniper.",
            "Inside which tin is the recipe for the saffron loaf kept?",
            "The tin marked",
            " Juniper",
        ),
        ("Night one", "Night two", "Night three", "Night four", "Night five", "Night six"),
        (
            "{count} trays of {bread} for {customer}, of which two were given to the bell ringers.",
            "the {machine} stopped at the worst moment and {person} kneaded {count} pounds by hand.",
            "{person} burned the first {bread} and wrote so, which deserves a word of praise.",
            "{customer} sent back {count} {bread}, saying that the salt had been forgotten; it had.",
            "a delivery of {flour} came in torn sacks, and {person} sieved all of it twice.",
            "{flour} is down to {count} sacks; {person} will ask the mill, and the mill will promise.",
            "{customer} ordered {bread} for a christening and wanted {count} of them plaited.",
            "{person} cleaned the {machine} with a brush and found the thimble that was lost at Easter.",
        ),
        {
            "count": ("three", "six", "eight", "ten", "sixteen", "twenty", "thirty-two"),
            "bread": ("rye loaves", "milk rolls", "seeded rounds", "currant buns", "long sticks"),
            "customer": ("the infirmary", "the Swan", "the school kitchen", "Mrs Lindqvist", "the ferry crew"),
            "machine": ("mixer", "dough divider", "old scales", "proving cupboard"),
            "person": ("Tomasz", "Nell", "the apprentice", "Mr Abara", "Josephine"),
            "flour": ("strong white flour", "dark rye", "coarse wheat", "spelt"),
        },
        Fact(
            "The wedding cake for the Farrow family must be ready by 6:45 in the morning.",
            "By what time must the wedding cake for the Farrow family be ready?",
            "By",
            " 6:45",
        ),
        "That is all from the night shift. The yeast is in the cool larder, the floor is dry, and the back door sticks "
        "again. Somebody has drawn a very good likeness of the miller on the slate; please do not wipe it off before "
        "he has seen it, for he is coming on Thursday to talk about the price of bran and will be in need of "
        "cheering up.",
        35,
    ),
    Text(
        "museum-handover",
        "Handover notes for the county museum while the galleries are being painted. Every object that leaves its case "
        "is listed with the room it came from, the room it went to and the person who carried it. Nothing is to be "
        "moved after four o'clock, when the light goes, and nothing at all on the day of the brass band.",
        Fact(
            "The painted fan was locked in the safe of the registrar, Leopold Quist.",
            "In whose safe was the painted fan locked?",
            "In the safe of",
            " Leopold Quist",
        ),
        ("First", "After that", "In the forenoon", "At noon", "In the afternoon", "Last of all"),
        (
            "the {thing} went from the {room} to the {other}, carried by {person} and wrapped in a blanket.",
            "{person} found a crack in the {thing}, drew it, and put the drawing with the label.",
            "{count} small boxes of {small} were stacked in the {other} with their lids tied down.",
            "the painters reached the {room}, and {person} asked them to keep the ladder away from the {thing}.",
            "{person} counted the {small} again and came to {count}, as did the card, which was a relief.",
            "a visitor walked into the {room} by mistake and admired the {thing} for some time.",
            "the label of the {thing} had been swapped with that of the {small}; both are right again.",
            "the floor of the {other} was measured for the {thing}, and {person} sent for {count} planks.",
        ),
        {
            "thing": ("ship in a bottle", "harp without strings", "stuffed pike", "clockwork orrery", "oak settle"),
            "room": ("long gallery", "coin room", "costume room", "old kitchen"),
            "other": ("north store", "attic", "reading room", "cellar"),
            "person": ("Winifred", "the porter", "Dr Castellan", "a volunteer", "the caretaker"),
            "count": ("two", "five", "nine", "seventeen", "twenty-six", "thirty-four"),
            "small": ("thimbles", "Roman nails", "glass beads", "butterflies", "pewter spoons"),
        },
        Fact(
            "The code of the new alarm is 7306, and it changes on the first of the month.",
            "What is the code of the new alarm?",
            "The code is",
            " 7306",
        ),
        "The painters say that the ceiling needs a second coat, so these notes will go on for another week. Anyone who "
        "opens the north store should shut it behind them because of the moths. The tea urn is in the coin room, "
        "which is against every rule, but it was the only table left that would bear the weight of it, and the "
        "director has given her leave.",
        31,
    ),
    Text(
        "river-gauges",
        "Field book of the river gauges between Ashby Lock and the estuary. The reader walks the bank twice a week, "
        "notes the level at each post, the colour of the water and anything that might explain them. Levels are in "
        "hand widths above the stone, as they have been since the first book, whatever the county would prefer.",
        Fact(
            "The oldest post stands at Thornwick, and all other posts are levelled from it.",
            "Where does the oldest post stand?",
            "At",
            " Thornwick",
        ),
        ("Post one", "Post two", "Post three", "Post four", "Post five", "Post six", "Post seven"),
        (
            "{level} hand widths and {colour}; {cause} upstream, according to {person}.",
            "could not be read from the bank; {person} waded out and called {level}, then lost a boot.",
            "{colour} and rising, {level} at the first look and one more when we had eaten.",
            "a raft of {drift} had caught on the chain, and {person} freed it with a pole.",
            "{level} hand widths; {person} remembers it at twice that in the year of {cause}.",
            "hidden by {drift}; the mark was scraped clean and found at {level}.",
            "{colour}, with a smell of the tannery; {person} has written to the owner before.",
            "{level} and falling slowly, although {cause} had made everyone expect the contrary.",
        ),
        {
            "level": ("four", "five", "seven", "eight", "ten", "eleven", "thirteen"),
            "colour": ("brown", "clear to the bottom", "grey with silt", "green at the edges"),
            "cause": ("heavy rain", "a broken sluice", "the mill standing idle", "snow melting", "dredging"),
            "person": ("the lock keeper", "a boy with a net", "Mrs Okonjo", "the bailiff", "my sister"),
            "drift": ("reeds", "apple crates", "straw", "willow branches"),
        },
        Fact(
            "The next walk begins at the 9:20 train, and the reader needs the short ladder.",
            "With which train does the next walk begin?",
            "The",
            " 9:20 train",
        ),
        "The walk took five hours with the halt at the inn. The book was dried before it was put away, and the pages "
        "for the estuary are stuck together, though they can be read against a window. It is proposed to paint the "
        "figures on the lower posts again, white on black, since the old ones have been rubbed away by cattle who use "
        "them to scratch.",
        36,
    ),
    Text(
        "school-repairs",
        "Repair book of the school at Nine Elms Road. Teachers write what is broken, the caretaker writes what he did "
        "about it, and the head reads it on Fridays. Urgent matters are underlined. A thing that was written down "
        "three times and not mended is brought before the governors, which has happened once.",
        Fact(
            "The stopcock for the whole building is in room 26, under the trapdoor.",
            "In which room is the stopcock for the whole building?",
            "Room",
            " 26",
        ),
        ("Week one", "Week two", "Week three", "Week four", "Week five"),
        (
            "the {thing} in the {room} was reported by {teacher} and mended with {part}.",
            "{teacher} asks for {count} more hooks in the {room}, at a height that small children reach.",
            "the caretaker waited for {part}, which came on a {day} and was the wrong size.",
            "{teacher} writes that the {thing} makes a noise like a goose whenever it rains.",
            "a window in the {room} was broken by a ball and {count} panes were ordered to have some in hand.",
            "the {thing} was mended on {day}, failed again, and was mended with more thought.",
            "{count} chairs from the {room} were glued and may be sat on from {day}.",
            "{teacher} thanks the caretaker for the {thing} and has left a jar of plums in the {room}.",
        ),
        {
            "thing": ("clock", "radiator", "piano lid", "sliding door", "gutter", "skylight"),
            "room": ("music room", "gymnasium", "lower hall", "library", "art room"),
            "teacher": ("Mr Bellamy", "Miss Rautio", "the French assistant", "Mrs Dacre"),
            "part": ("a new spring", "two brass screws", "putty", "a length of chain", "a rubber washer"),
            "count": ("three", "six", "ten", "fourteen", "two dozen"),
            "day": ("Monday", "Wednesday", "Thursday", "Friday"),
        },
        Fact(
            "The piano tuner is called Ferdinand Moss, and he must be paid in coins.",
            "What is the piano tuner called?",
            "He is called",
            " Ferdinand Moss",
        ),
        "The head has read this book and signed it. The governors will be told that the roof has held for a whole "
        "winter, which is new. Requests for the summer should be written on the yellow sheet, one to a line, with the "
        "room and the reason, and they should be handed in before the caretaker goes to see his mother at the coast "
        "in July.",
        36,
    ),
)


def prompts() -> Iterator[dict[str, object]]:
    """Yield the prompts in order."""
    for text in TEXTS:
        body = "".join(f"\n{_line(text, index)}" for index in range(text.entries))
        yield {
            "id": text.id,
            "text": f"{text.opening} {text.far.said}\n{body}\n\n{text.near.said} {text.closing}\n",
            "references": [
                _reference("far", text.far, FAR_TOKENS),
                _reference("near", text.near, NEAR_TOKENS),
            ],
        }


def _line(text: Text, index: int) -> str:
    """Return one entry: its stamp, and a sentence with every slot filled."""
    # Neighbouring lines differ; a line returns only after all the others.
    sentence = text.lines[(index * 5 + index // len(text.lines)) % len(text.lines)]
    for slot, words in text.slots.items():
        sentence = sentence.replace("{" + slot + "}", words[_drawn(text.id, index, slot) % len(words)])
    stamp = text.stamps[index % len(text.stamps)]
    return f"{stamp}: {sentence[0].upper()}{sentence[1:]}"


def _drawn(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


def _reference(name: str, fact: Fact, distance_tokens: int) -> dict[str, object]:
    return {
        "id": name,
        "question": f"\nQuestion: {fact.question}\nAnswer:",
        "answer_prefix": f" {fact.prefix}",
        "answer": fact.answer,
        "evidence": fact.said,
        "distance_tokens": distance_tokens,
    }


if __name__ == "__main__":
    for prompt in prompts():
        sys.stdout.write(json.dumps(prompt, ensure_ascii=False) + "\n")
