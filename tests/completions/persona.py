"""A user of four statements, whose ids have gaps."""

PTKB = {
    "1": "I rent a flat on the fourth floor.",
    "2": "My balcony faces north.",
    "3": "I can't eat nuts, and I carry an adrenaline pen.",
    "7": "10 years ago I moved to Oslo.",
}
