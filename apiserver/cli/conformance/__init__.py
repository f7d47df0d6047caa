"""`apiserver conformance`: replays recorded conversations against an endpoint, and counts what agrees.

command        the command line
conversations  the recorded conversations and the program that replays them
endpoint       connections to the endpoint, with limits
preflight      checks the endpoint before anything is replayed
runner         replays conversations side by side
results        the result of each conversation, and counts by area
reports        results as text, HTML, JSON or JUnit's XML
"""
