"""Questions asked of a model or of a ledger, one file each; the answers are small tables and never plots.

Import them from their files: the report reads those about ledgers and starts without torch.
"""
