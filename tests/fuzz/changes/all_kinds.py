"""What the generator chooses from."""

from tests.fuzz.changes import code, kinds
from tests.fuzz.changes.generator import Changes, Kind

KINDS = (
    Kind("rows", Changes.writes, 16),
    Kind("tables", Changes.create_table, 5),
    Kind("alter", kinds.alter, 8),
    Kind("comment", kinds.comment, 3),
    Kind("grant", kinds.grant, 3),
    Kind("index", kinds.index, 4),
    Kind("an index of long values", kinds.long_index, 2),
    Kind("an index of long values, meanwhile", kinds.long_index_meanwhile, 3),
    Kind("storage", kinds.storage, 2),
    Kind("storage, meanwhile", kinds.storage_meanwhile, 2),
    Kind("publication", kinds.publication, 2),
    Kind("publication, meanwhile", kinds.publication_meanwhile, 2),
    Kind("policy", kinds.policy, 3),
    Kind("a schema's right", kinds.schema_right, 2),
    Kind("local", kinds.local_object, 6, mended=False),
    Kind("local storage", kinds.local_storage, 2, mended=False),
    Kind("view", kinds.view, 3),
    Kind("partitioned", kinds.partitioned, 2),
    Kind("drop", kinds.drop, 2),
    Kind("give away", kinds.give_away, 2),
    Kind("temporary", kinds.temporary, 2),
    Kind("check", code.check, 5, mended=False),
    Kind("a domain's check", code.domain_check, 2, mended=False),
    Kind("generated", code.generated, 2),
    Kind("function", code.function, 4),
    Kind("expression index", code.expression_index, 2, mended=False),
    Kind("trigger", code.trigger, 4),
    Kind("trigger where rows are applied", code.applied_trigger, 5, mended=False),
    Kind("rule", code.rule, 2),
    Kind("rule where rows are applied", code.applied_rule, 3, mended=False),
    Kind("another's function", code.foreign_function, 3, mended=False),
)
