"""Matrix products of other libraries' arrays: one adapter a library, imported when it is met."""
