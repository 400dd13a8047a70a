"""Draft and verify passes of sequences whose caches are filled, and records without their times."""

from dataclasses import replace

from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.query import Query, Role
from tests.random_model import MASK, PROMPT

CONFIG = DecodeConfig(gen_length=20, window_size=8)
PROMPTS = [PROMPT, [1, 9, 8, 7], list(range(20, 51)), [77], PROMPT[::-1]]


def verify_query(length, tracked, searched):
    query = Query("verify", length)
    for position in tracked:
        query.add(100 + position, position, position, Role.TRACKED)
    for rank, position in enumerate(searched, 1):
        query.searched[position] = rank
        query.add(200 + position, position, length + rank - 1, Role.DRAFT_VIEW, rank)
    for rank, position in enumerate(searched, 1):
        query.predict.append(query.rows)
        query.add(MASK, position, length + len(searched) + rank - 1, Role.MASK_VIEW, rank)
    return query


def draft_query(length, tracked, window):
    query = Query("draft", length, wants_mass=True)
    for position in tracked:
        query.add(100 + position, position, position, Role.TRACKED)
    for position in window:
        query.predict.append(query.rows)
        query.add(MASK, position, position, Role.WINDOW)
    return query


def filled_session(engine):
    """Two sequences of 19 and 30 positions whose caches a full pass has filled."""
    session = engine.open(SessionRequest(2, 40, max_views=10))
    handles = [session.admit(length, seed=0) for length in (19, 30)]
    for handle, length in zip(handles, (19, 30), strict=True):
        query = Query("full", length)
        for position in range(length):
            query.add(300 + position, position, position, Role.CONTEXT)
        query.predict.append(0)
        session.answer([(handle, query)])
    return session, handles


def untimed(step):
    passes = tuple(replace(record, seconds=0.0, route="") for record in step.passes)
    return replace(step, passes=passes)
