"""The published document as a static site: Markdown to HTML with MathML, and the audit of what came out."""
