"""JupyterHub of a class: people sign in, and each has a JupyterLab of her own.

JupyterHub runs it: `python -m jupyterhub --config jupyterhub_config.py`, with its settings in RAYLAB_HUB.
"""
