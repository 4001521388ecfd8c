import type { Statement } from './session.ts';

/**
 * What each process that writes a stream wrote last. It is how a process knows that nothing which it was acknowledged
 * has gone, and what became of a commit that was not confirmed, whoever else has written since.
 */

/** A process that has written nothing and said nothing for so long is gone. */
const FORGOTTEN_AFTER = "interval '30 days'";

/** Makes a process known, and forgets those that are long gone. The stream's row must be locked. */
export function registerWriter(stream: number, owner: string): readonly Statement[] {
  return [
    {
      text: `delete from meterfeed.writer where stream = $1 and at < now() - ${FORGOTTEN_AFTER}`,
      values: [stream],
    },
    {
      text: `insert into meterfeed.writer (stream, owner, batch)
        select stream, $2, batch from meterfeed.stream where stream = $1`,
      values: [stream, owner],
      rows: 1,
    },
  ];
}

/** The number of a process's last batch. */
export function selectWriter(stream: number, owner: string): Statement {
  return {
    text: 'select batch from meterfeed.writer where stream = $1 and owner = $2',
    values: [stream, owner],
  };
}

/** Notes a process's last batch. */
export function updateWriter(stream: number, owner: string, batch: number): Statement {
  return {
    text: 'update meterfeed.writer set batch = $3, at = now() where stream = $1 and owner = $2',
    values: [stream, owner, batch],
    rows: 1,
  };
}

/** Says that a process is still there. Its commit is confirmed only after all that is visible before it. */
export function touchWriter(stream: number, owner: string): Statement {
  return {
    text: `update meterfeed.writer set at = now() where stream = $1 and owner = $2
      returning batch`,
    values: [stream, owner],
  };
}

/** Says once a day that a process is still there which has nothing to write. */
export function touchIdleWriter(stream: number, owner: string): Statement {
  return {
    text: `update meterfeed.writer set at = now()
      where stream = $1 and owner = $2 and at < now() - interval '1 day'`,
    values: [stream, owner],
  };
}

/** A transaction that forgets a process which ends in good order. Nobody waits for a standby because of it. */
export function forgetWriter(stream: number, owner: string): readonly Statement[] {
  return [
    { text: 'begin; set local synchronous_commit = local; set local lock_timeout = 1000' },
    {
      text: 'delete from meterfeed.writer where stream = $1 and owner = $2',
      values: [stream, owner],
    },
    { text: 'commit' },
  ];
}
