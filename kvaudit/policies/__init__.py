"""The definition of each method, exact and readable beside its paper. Integers and Fractions in and out."""
