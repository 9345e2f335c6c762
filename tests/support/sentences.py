"""English sentences, grouped by subject, so that some are close to each other and most are not."""

from __future__ import annotations

#: What activations are measured on before a model is quantized.
CALIBRATION = """
She put the kettle on and waited for the water to boil.
The committee will publish its findings next spring.
Prices rose by four percent in the third quarter.
How do I reset my password?
A small dog was barking at the mail carrier.
The bridge was closed after the storm damaged two of its pillars.
Photosynthesis turns sunlight, water and carbon dioxide into sugar.
He scored twice in the last ten minutes of the game.
Please send me the invoice by Friday.
The orchestra tuned their instruments before the conductor came in.
Researchers found a new species of frog in the rain forest.
This phone's battery lasts less than a day.
I have never been so disappointed by a film.
The recipe calls for two eggs, flour, butter and a pinch of salt.
Why is the sky blue?
Several passengers were injured when the train braked suddenly.
The old library smelled of dust and leather.
Our flight to Lisbon leaves at 6:45 in the morning.
The judge dismissed the case for lack of evidence.
Children learn languages faster than adults do.
A recursive function calls itself until it reaches a base case.
The volcano erupted for the first time in a century.
They painted the kitchen yellow over the weekend.
Interest rates are likely to stay where they are this year.
The patient was given antibiotics and sent home.
Yes.
""".strip().splitlines()

#: What the quantized model is judged by.
SENTENCES = """
A man is playing a guitar on the street.
Someone performs music with a guitar outdoors.
A woman is playing the violin in a concert hall.
The band cancelled its tour because the singer was ill.
A cat is sleeping on the sofa.
The kitten naps on the couch.
Dogs need to be walked at least twice a day.
My neighbour's parrot can whistle three songs.
The stock market fell sharply today.
Shares lost much of their value this afternoon.
The central bank raised interest rates by a quarter of a point.
Inflation slowed down for the second month in a row.
How can I learn to cook Italian food?
What is the best way to learn Italian cooking?
Add the garlic when the oil is hot, but do not let it burn.
The soup was cold and the waiter was rude.
The rocket carried two satellites into orbit.
A spacecraft was launched with a pair of satellites on board.
Astronomers discovered a planet outside the solar system.
The moon is about 384,000 kilometres away from the earth.
She finished the marathon in under three hours.
He completed the long-distance race in less than 180 minutes.
The goalkeeper saved a penalty in the last minute.
Our team lost the final by one point.
The new law protects the privacy of internet users.
Legislation was passed to safeguard people's data online.
The minister resigned after the scandal.
Voters go to the polls on the first Sunday in May.
Heavy rain caused floods in the south of the country.
Rivers burst their banks after days of downpours.
It will be sunny and warm until Thursday.
Glaciers are melting faster than scientists expected.
My laptop will not start after the update.
The computer fails to boot since I installed the new version.
Sorting a list of n numbers takes about n log n comparisons.
The program crashed because it ran out of memory.
The doctor told him to drink more water and to rest.
The physician advised plenty of fluids and sleep.
A vaccine against malaria is being tested in four countries.
She broke her arm when she fell off her bicycle.
The museum is closed on Mondays.
You cannot visit the gallery at the beginning of the week.
The castle on the hill was built in the twelfth century.
We walked along the beach until the sun went down.
I would like to return these shoes, they are too small.
Can I get a refund for a pair that does not fit?
The train to Vienna was forty minutes late.
Where is the nearest petrol station?
To be, or not to be, that is the question.
No, thank you.
""".strip().splitlines()
