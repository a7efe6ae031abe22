"""A program that misuses the API, for the type checker: it reports each error that is not there. It is never run."""

import ioassay as ia

ia.open(1)  # type: ignore[arg-type]
ia.Study(drivr="null")  # type: ignore[call-arg]
print(ia.compare("a", "b").verdit)  # type: ignore[attr-defined]
