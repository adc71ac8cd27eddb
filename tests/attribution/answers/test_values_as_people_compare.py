"""Values as people compare them, read with the bundled parser on sentences of our own."""

from __future__ import annotations

from functools import cache

import pytest

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage


@cache
def parser() -> AnswerParser:
    return AnswerParser.from_pretrained("bundled")


def unmatched(answer: str, *texts: str) -> tuple[str, ...]:
    matcher = ValueMatcher(answer=answer, parsed=parser().parse(answer), passages=[Passage(one) for one in texts])
    return matcher.unmatched_values(CharRange(0, len(answer)), ())


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("The bridge stands in New York.", "A bridge in Albany, NY, was closed."),
        ("The bridge stands in Albany, NY.", "Albany is a city of New York."),
        ("The mill lies in Goleta, California.", "city: Goleta, state: CA"),
        ("The treaty binds the United States.", "The U.S. signed the treaty."),
        ("Many workers came from Britain.", "British workers came in large numbers."),
        ("The Italian flag was raised.", "Italy raised its flag."),
        ("Chicago has a lake.", "Chicagoans like the lake: Chicagoan air is wet."),
        ("Italian President Lena Falk spoke.", "Lena Falk is the President of Italy."),
        ("She moved to New York City.", "She has lived in NYC since."),
        ("She moved to NYC.", "She has lived in New York City since."),
        ("The Bureau of Fair Weather (BFW) opened.", "The BFW opened its doors."),
        ("The American Cloud Society warned of it.", "A warning of the ACS followed."),
        ("It was made by Kestrel Corporation.", "Kestrel Corp. makes it."),
        ("It was made by Kestrel Inc.", "Kestrel makes it."),
        ("Mr. Halloran opened the door.", "John Halloran opened the door."),
        ("Governor Mira Falk signed it.", "Gov. Falk signed it. Mira Falk is in office."),
        ("Jonas Halloran won.", "Mr. Halloran won the race."),
        ("They offer free Wi-Fi.", "WiFi: free"),
        ("The museum closes on Sunday.", "closed on Sun."),
        ("Sales fell in Q3 of the year.", "In the third quarter, sales fell."),
        ("The Take-Out is good.", "RestaurantsTakeOut: true"),
        ("The Defence Ministry said so.", "The defense ministry said so."),
        ("Oslo's harbour froze.", "the harbour of OSLO"),
        ("The P. G. Falk prize was given.", "the Falk Prize"),
        ("The BMI is high.", "a high body mass index"),
        ("Many use AI today.", "the use of artificial intelligence"),
        ("It has a GPU.", "It has a graphics card."),
        ("It needs 4 GB of RAM.", "It needs 4 GB of memory."),
        ("The Fed raised it.", "It was raised by the Federal Reserve."),
        ("It grew in Mexico.", "It grew in a Mexican field."),
        ("It was built in Egypt.", "The Egyptians built it."),
        ("Many Britons like it.", "It is liked in Britain."),
        ("It cost $5M to build.", "The building cost 5 million dollars."),
        ("It cost $5,000,000 to build.", "The price was 5m USD."),
        ("It cost 5 million dollars to build.", "We paid 5 mln bucks."),
        ("About 30k people came.", "About 30,000 people came."),
        ("It earned 2.5bn euros.", "It earned 2.5 billion euros."),
        ("Some 50% of them left.", "Half of them left."),
        ("Fifty percent of them left.", "50% of them left."),
        ("It dates from the 21st century.", "in the twenty-first century"),
        ("He came 1st in the race.", "He came first."),
        ("Open from 11AM-5PM daily.", "hours: 11:0-17:0"),
        ("Open from 7:00 am to 9:30 pm.", "Monday: 7:0-21:30"),
        ("It closes at 17:00.", "It closes at 5 p.m."),
        ("Lunch starts at 12 PM.", "Lunch starts at noon."),
        ("They open seven days a week.", "Monday Tuesday Wednesday Thursday Friday Saturday Sunday: 9-17"),
        ("It was shut during COVID-19.", "It was shut during covid."),
        ("It costs $0.60.", "It costs 60 cents."),
        ("It took 2 hours and 15 minutes.", "It took 135 minutes."),
        ("It took 90 minutes.", "It took 1h 30min."),
        ("It took an hour and 15 minutes.", "It took 75 minutes."),
        ("It took 1 year and 6 months.", "It took 18 months."),
        ("Figure 2 shows it.", "fig. 2"),
        ("It costs £0.50.", "It costs 50p."),
        ("Some 20% of them left.", "One person in five left."),
        ("Some 75% of them left.", "Three out of four left."),
        ("Some 1 in 5 left.", "20% left."),
        ("The rate rose by 25 basis points.", "The rate rose by a quarter of a percentage point."),
        ("The rate rose by 0.5 percentage points.", "The rate rose by 50 bps."),
        ("The rate rose by 50 basis points.", "a half-point rise"),
        ("They used 12 eggs.", "They used a dozen eggs."),
        ("They used 24 eggs.", "They used two dozen eggs."),
        ("About 500,000 people came.", "Half a million people came."),
        ("About 1.5 million people came.", "One and a half million people came."),
        ("It earned $1.2–1.5 million.", "from $1.2 million to $1.5 million"),
        ("It earned 3 million to 5 million euros.", "between 3 and 5 million euros"),
        ("Use 1/2 cup of it.", "Use half a cup of it."),
        ("Use 1½ cups of it.", "Use 1.5 cups of it."),
        ("Use 0.75 cups of it.", "Use ¾ cup of it."),
        ("Take it 2 times a day.", "Take it twice daily."),
        ("It grew 3x.", "It tripled."),
        ("In FY2023 it grew.", "It grew in fiscal 2023."),
        ("In fiscal 2023 it grew.", "It grew in FY23."),
        ("The 2024/2025 season began.", "season 2024/25"),
        ("The 2024/25 season began.", "season of 2024 and 2025"),
        ("In the 90s it grew.", "It grew in the 1990s."),
        ("It opened on 12 May 2013.", "Opened: 05/12/2013"),
        ("It closes at 6:30 pm.", "It closes at 18.30."),
        ("Use 500 ml of water.", "Use half a litre of water."),
        ("It weighs 1,240 g.", "Weight: 1.24 kg"),
        ("The run is 5 km long.", "a run of 5,000 metres"),
        ("It holds 2 TB.", "It holds 2,000 GB."),
        ("More than 3,000 people signed it.", "It was signed by 3,412 people."),
        ("It rose by nearly $6 million.", "It rose by $6.04 million."),
        ("Half a million people came.", "A half-million people came."),
        ("Two and a half million came.", "2.48 million people came."),
        ("Nearly 700 people came.", "In all 688 people came."),
        ("Roughly half a million people came.", "In all 489,000 people came."),
        ("It took about 30 minutes.", "It took 29 minutes."),
        ("Some 40 people or so came.", "In all 38 people came."),
        ("It dates from the 19th century.", "It was founded in 1848."),
        ("It dates from the 1800s.", "It was founded in 1848."),
        ("It dates from the 1800s.", "It was founded in the 19th century."),
        ("Some two thirds of them left.", "67% of them left."),
        ("Only one tenth of it is left.", "10% of it is left."),
        ("About three quarters of them left.", "76% of them left."),
        ("Three quarters of them left.", "3/4 of them left."),
        ("Profits fell for three quarters.", "Profits fell for 3 quarters."),
        ("It took three quarters of an hour.", "It took 45 minutes."),
        ("It took 45 minutes.", "It took three quarters of one hour."),
        ("It took three months.", "It took 90 days."),
        ("It took 365 days.", "It took a year."),
        ("India has several hundred languages.", "India has 447 languages."),
        ("The run is 3/4 mile long.", "It is 0.75 miles long."),
        ("It was closed in 2020.", "season 2019-20"),
        ("It opens at 9:30 am.", "Mass is held at 9.30 on Sundays."),
        ("The link has 1 Gbps.", "The link has 1000 Mbps."),
        ("It needs 6 eggs.", "It needs half-dozen eggs."),
        ("In FY97 it grew.", "In 1997 it grew."),
        ("In FY 2023 it grew.", "It grew in fiscal 2023."),
        ("It closes at 6:30 pm.", "The doors close at 6.30."),
        ("The rate rose by 0.25 percentage points.", "The rate rose by a quarter of a point."),
        ("The rate rose by 0.25%.", "The rate rose by 25 basis points."),
        ("The walk takes 2 hours and 15 minutes, the ride 3 hours and 5 minutes.", "Walk: 135 minutes. Ride: 185 min."),
    ],
)
def test_a_name_an_amount_or_a_time_is_found_in_another_form(answer: str, passage: str) -> None:
    assert unmatched(answer, passage) == ()


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("The bridge stands in New York.", "A new bridge stands in Albany.", ("New York",)),
        ("The bridge stands in Indiana.", "The bridge stands in town.", ("Indiana",)),
        ("It was painted by Mary Halloran.", "John Halloran painted it.", ("Mary Halloran",)),
        ("It was painted by Ada Byron.", "Ada Lovelace painted it.", ("Ada Byron",)),
        ("Norman Halloran painted it.", "Ada Halloran normally paints in Normandy.", ("Norman Halloran",)),
        ("Herman likes it there.", "A hermit likes it there.", ("Herman",)),
        ("The Bureau of Fair Weather opened.", "The BFI opened its doors.", ("Bureau", "Fair Weather")),
        ("The BMI is high.", "The body was in mass and index.", ("BMI",)),
        ("It has a GPU.", "It has two cards.", ("GPU",)),
        ("Set `debug` to `off`.", "Disable debug mode.", ()),
        ("Enter `yes` to confirm.", "Confirm it.", ()),
        ("The value is a `string`.", "The value is text.", ()),
        ("Run `sudo` first.", "Run it as root.", ()),
        ("Set `max_items` to `true`.", "Set max_items to 5.", ()),
        ("Nokia each year sold phones.", "It sold phones.", ("Nokia",)),
        ("Microsoft an hour ago said so.", "It said so.", ("Microsoft",)),
        ("- Amazon each pays.", "It pays.", ("Amazon",)),
        ("It grew in Monaco.", "It grew in a Mexican field.", ("Monaco",)),
        ("It was built in Ireland.", "It was built in Iran.", ("Ireland",)),
        ("Franklin signed it.", "Ada signed it.", ("Franklin",)),
        ("Growth was seen in Asia.", "As prices rose, it grew.", ("Asia",)),
        ("He lived in Nigeria.", "He lived in Niger.", ("Nigeria",)),
        ("Washington announced it.", "Beijing announced it, on washing machines.", ("Washington",)),
        ("Russia with its allies attacked.", "France with its allies attacked.", ("Russia",)),
        ("Francis of Assisi prayed.", "Clare of Assisi prayed.", ("Francis",)),
        ("They use Google Earth today.", "They use Google Maps today.", ("Google Earth",)),
        ("Run it with `--overwrite`.", "with --overwrite it is replaced", ()),
        ("Run `make all` there.", "Run it there.", ()),
        ("It cost $5M to build.", "The building cost 6 million dollars.", ("5M",)),
        ("Some 40% of them left.", "Half of them left.", ("40",)),
        ("It closes at 8:00 PM.", "hours: 11:0-17:0", ("8:00 PM",)),
        ("It closes at 5 AM.", "It closes at 5 p.m.", ("5 AM",)),
        ("It dates from the 18th century.", "in the nineteenth century", ("18",)),
        ("Heat it to 350°F (195°C).", "Heat it to 350 degrees.", ("195",)),
        ("It got 4 stars, good reviews, thanks and praise.", "It got 3 stars.", ("4",)),
        ("They open seven days a week.", "Monday Tuesday Wednesday: 9-17", ("seven",)),
        ("It has two towers.", "It has three towers.", ("two",)),
        ("It costs $0.60.", "It costs 6 cents.", ("0.60",)),
        ("It took 2 hours and 20 minutes.", "It took 135 minutes.", ("2", "20")),
        ("It took 135 minutes.", "It took 2 hours, then 15 minutes.", ("135",)),
        ("Some 25% of them left.", "One in five left.", ("25",)),
        ("The rate rose by 25 basis points.", "The rate rose by half a point.", ("25",)),
        ("They used 12 eggs.", "They used half a dozen eggs.", ("12",)),
        ("About 500,000 people came.", "Half a thousand people came.", ("500,000",)),
        ("It earned 3 million euros.", "between 3 and 5 thousand euros", ("3 million",)),
        ("Use 1/4 cup of it.", "Use half a cup of it.", ("1", "4")),
        ("Take it 3 times a day.", "Take it twice daily.", ("3",)),
        ("In FY2024 it grew.", "It grew in fiscal 2023.", ("2024",)),
        ("The 2024/2026 season began.", "season 2024/25", ("2026",)),
        ("It opened on 12 May 2013.", "Opened: 12/06/2013", ("12 May 2013",)),
        ("It closes at 6:30 pm.", "It closes at 18.40.", ("6:30 pm",)),
        ("Use 50 ml of water.", "Use half a litre of water.", ("50",)),
        ("It weighs 1,240 g.", "Weight: 1.42 kg", ("1,240",)),
        ("The run is 5 km long.", "a weight of 5,000 grams", ("5",)),
        ("3,000 people signed it.", "It was signed by 3,412 people.", ("3,000",)),
        ("More than 3,000 people signed it.", "It was signed by 2,990 people.", ("3,000",)),
        ("More than 100 people came.", "In all 160 people came.", ("100",)),
        ("Nearly 700 people came.", "In all 712 people came.", ("700",)),
        ("About 26 people came.", "In all 28 people came.", ("26",)),
        ("At least 80 people came.", "In all 84 people came.", ("80",)),
        ("It took about 30 minutes.", "It took 40 minutes.", ("30",)),
        ("It took about 30 minutes.", "It took 29 hours.", ("30",)),
        ("It dates from the 18th century.", "It was founded in 1848.", ("18",)),
        ("It dates from the 1700s.", "It was founded in 1848.", ("1700s",)),
        ("Some four fifths of them left.", "40% of them left.", ("four fifths",)),
        ("No more than 80 people enter.", "No more than 88 people enter.", ("80",)),
        ("It held over 80 of them.", "It held 84 of them.", ("80",)),
        ("It was built around 2000.", "It was built in 1850.", ("2000",)),
        ("Some three hundred people died.", "Thirty people died.", ("three hundred",)),
        ("It dates from the 19th century.", "It has 1,850 seats.", ("19",)),
        ("It dates from the 2nd century.", "It has 150 seats.", ("2",)),
        ("It opened in the 1800s.", "It opened on May 19th.", ("1800s",)),
        ("It took 30 minutes.", "It took two and a half hours.", ("30",)),
        ("The cave has seven passages.", "The cave has nine passages.", ("seven",)),
        ("The '00s decade was good.", "The firm lasted 20 years.", ("00s",)),
        (f"It is the {'9' * 5000}th century.", "1850", ("9" * 5000,)),
        ("It took three quarters of an hour.", "It took 40 minutes.", ("three quarters",)),
        ("It took two months.", "It took 90 days.", ("two",)),
        ("Half a million people came.", "In all 400,000 people came.", ("Half a million",)),
        ("Dry the figs at 350°F (175°C).", "Dry figs in an oven at 350 degrees.", ()),
        ("Dry the figs at 350°F (175°C).", "Dry figs at 175 C.", ()),
        ("Dry the figs at 350°F (175°C).", "Dry figs at 300 F.", ("350", "175")),
        ("Dry the figs at 350°F (190°C).", "Dry figs at 350 F.", ("190",)),
        ("Keep figs at 60-75°F (16-24°C).", "Figs like 60 to 75 degrees.", ()),
        ("The canal is four miles (6.4 km) long.", "The canal has a length of 4 miles.", ()),
        ("The canal is four miles (6.4 km) long.", "A length of 6.4 kilometres.", ()),
        ("The canal is four miles (8.4 km) long.", "The canal has a length of 4 miles.", ("8.4",)),
        ("It costs 7.", "❶ and a half million", ("7",)),
        ("It opened in 2011.", "date: 2023-11-02", ("2011",)),
        ("It opened in 2010.", "On 2019/10 it closed.", ("2010",)),
        ("It opened in 2025.", "pages 2010-25", ("2025",)),
        ("It opened in 2012.", "It was closed in 2011-12.", ("2012",)),
        ("It opens at 9:30 am.", "It opens at 8:00 am. Inflation was 9.3 percent.", ("9:30 am",)),
        ("It opens at 9:30 am.", "Inflation stood at 9.30 percent.", ("9:30 am",)),
        ("It opens at 9:30 am.", "Inflation stood at 9.3.", ("9:30 am",)),
        ("Open until 10:20 am.", "Open until 9:00 am, 10.2 km away.", ("10:20 am",)),
        ("It opens at 8:15.", "It opens at 9:00. Adults pay 8.15.", ("8:15",)),
        ("It opens at 8:15.", "It opens at 9:00. Tickets start at 8.15.", ("8:15",)),
        ("The index rose 0.5 percent.", "In the first half of March, the index rose 0.7 percent.", ("0.5",)),
        ("Profits rose 0.25%.", "a quarter ended in June", ("0.25",)),
        ("Profits rose 0.33 percent.", "a third party", ("0.33",)),
        ("Prices rose 0.5%.", "half", ("0.5",)),
        ("Prices rose 0.5%.", "half a cup", ("0.5",)),
        ("The discount is 50%.", "Part 1 of 2", ("50",)),
        ("About 25% agree.", "Step 1 of 4: open the lid", ("25",)),
        ("Some 50% of them left.", "It fell by 5 in 10 minutes.", ("50",)),
        ("It raised $5m.", "The road is 5,000 km long.", ("5m",)),
        ("The fund has 4m euros.", "4,000 km", ("4m",)),
        ("The fund has 4 m euros.", "4,000 km", ("4 m",)),
        ("It raised $5 m.", "The road is 500 cm wide.", ("5 m",)),
        ("Take it 2 times a day.", "double room", ("2",)),
        ("It grew 2x.", "They double-checked it.", ("2",)),
        ("It costs $10.80.", "1080p video", ("10.80",)),
        ("The link has 1 Gbps.", "The link has 1000 MBps.", ("1",)),
        ("The disk holds 1 GB.", "The disk writes 1000 MB/s.", ("1",)),
        ("Meet on 3/4.", "0.75 of a mile", ("3", "4")),
        ("On 3/5 we met.", "The price is 0.6.", ("3", "5")),
        ("The price is 0.6.", "On 3/5 we met.", ("0.6",)),
        ("He is in his 90s.", "in 1990", ("90s",)),
        ("They used 12 eggs.", "They used several dozen eggs.", ("12",)),
    ],
)
def test_what_no_passage_repeats_is_reported_whole(answer: str, passage: str, expected: tuple[str, ...]) -> None:
    assert unmatched(answer, passage) == expected


def test_a_span_within_an_unmatched_name_reports_the_whole_name() -> None:
    answer = "It was painted by Ada Byron."
    matcher = ValueMatcher(answer=answer, parsed=parser().parse(answer), passages=[Passage("Ada Lovelace")])
    start = answer.index("Byron")
    assert matcher.unmatched_values(CharRange(start, start + 5), ()) == ("Ada Byron",)


@pytest.mark.parametrize(
    "answer",
    [
        "Passage 3 says that it rained.",
        "It rained (Ref: Passage 2), as documents 1 and 4 say.",
        "Step 2: Let it rest. Repeat steps 7 and 8.",
        "Here is a summary of the article in 200 words:",
        "The two countries are Falkland and Runa.",
        "The three colours are red, green and blue.",
        "There are three ways:\n\n1. Wait for it.\n2. Look for it.\n3. Forget it.",
        "It got 4.5 stars out of 5.",
        "9) It rained there.",
        "Sow seeds directly into the pot.",
        "- Sunshine: there is plenty of it.",
        "1. May prevent colds.",
        "Features: Indoor and outdoor seats.",
        "It rained on two sides of the river.",
        "The three passages say that it rained.",
        "1. Rinse it.\n2. Rinse the pot.",
        "- Consists of water",
        "Whichever you take, it rained.",
    ],
)
def test_what_counts_the_answers_own_parts_or_only_begins_a_sentence_is_no_value(answer: str) -> None:
    assert unmatched(answer, "Falkland, Runa: 4.5 stars, sides.") == ()


def test_a_passage_more_matches_what_only_it_has() -> None:
    answer = "It has 40 rooms in Bergen, near Oslo."
    parsed, everything = parser().parse(answer), CharRange(0, len(answer))
    matcher = ValueMatcher(answer=answer, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(everything, ()) == ("40", "Bergen", "Oslo")
    more = matcher.with_passage(Passage("Which hotel of Bergen has 40 rooms?"))
    assert more.unmatched_values(everything, ()) == ("Oslo",)
    assert matcher.unmatched_values(everything, ()) == ("40", "Bergen", "Oslo")


def test_a_small_number_counts_as_soon_as_a_passage_more_counts_the_same_things() -> None:
    answer = "There are two sides."
    parsed, everything = parser().parse(answer), CharRange(0, len(answer))
    matcher = ValueMatcher(answer=answer, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(everything, ()) == ()
    assert matcher.with_passage(Passage("It has 3 sides.")).unmatched_values(everything, ()) == ("two",)


def test_a_temperature_of_forty_digits_is_compared() -> None:
    ones = "1" * 40
    assert unmatched(f"Heat it to {ones}°C ({ones}°F).", f"{ones}°F") == ()
    assert unmatched(f"Heat it to {ones}°C ({ones}°F).", "Heat it.") != ()


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("About 20% fall ill.", "One in 5,000 of them falls ill.", ("20%",)),
        ("About 20% fall ill.", "One in 5 million of them falls ill.", ("20%",)),
        ("Some 1 in 5 million fall ill.", "Some 20% fall ill.", ("1", "5 million")),
        ("It needs 12 eggs.", "It needs half-dozen eggs.", ("12",)),
        ("It needs 12 eggs.", "It needs 3 dozen eggs.", ("12",)),
        ("In 2097 it grew.", "In FY97 it grew.", ("2097",)),
        ("The wall is 5 feet high.", "They won 60 in 2019.", ("5",)),
        ("The wall is 500 cm high.", "The app has 5 m users.", ("500",)),
        ("The dose is 0.1 g.", "Sugar stood at 100 mg/dl.", ("0.1",)),
        ("The run is 60 km long.", "It does 60,000 m per second.", ("60",)),
        ("The tax is 12%.", "They ate a dozen eggs.", ("12",)),
        ("The tax is 0.5%.", "It costs 50 cents.", ("0.5",)),
    ],
)
def test_counts_rates_and_percentages_are_not_taken_for_other_amounts(
    answer: str, passage: str, expected: tuple[str, ...]
) -> None:
    assert tuple(one.rstrip("%") for one in unmatched(answer, passage)) == tuple(one.rstrip("%") for one in expected)
