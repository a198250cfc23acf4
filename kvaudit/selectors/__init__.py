"""The selections of policies/, vectorised with NumPy for real sizes; tested against policies/."""
