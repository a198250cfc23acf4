"""Click commands: gather options, call one function, render, exit."""
