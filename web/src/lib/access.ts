// Who uses the page, and what it shows them. Nothing here keeps state; see docs/access.md for the roles.

export type Role = 'ingest' | 'read' | 'operate' | 'admin';

/** The answer of `/api/v1/me`. */
export interface Me {
  /** `off`: nobody has to say who they are. */
  login: 'off' | 'on';
  name: string | null;
  role: Role | null;
  /** Everybody who reaches the server may do everything. */
  exposed: boolean;
}

/** What is taken for the truth when the server does not tell: an older one, or one that cannot be reached. */
export const ANYBODY: Me = { login: 'off', name: null, role: 'admin', exposed: false };

/** What the whole page shows: a login, a refusal, or the views. */
export function screenOf(me: Me): 'login' | 'nothing' | 'views' {
  if (me.role === null) return 'login';
  return me.role === 'ingest' ? 'nothing' : 'views';
}

/** Whether queries of others can be seen and cancelled. */
export function seesAllQueries(me: Me): boolean {
  return me.role === 'operate' || me.role === 'admin';
}

/** Who is logged in, for the header; null where nobody has to. */
export function whoText(me: Me): string | null {
  return me.login === 'on' && me.name !== null ? `${me.name} (${me.role ?? 'no role'})` : null;
}

/** Reads an answer of `/api/v1/me`; what is not one counts as nobody. */
export function meOf(answer: unknown): Me {
  const { login, name, role, exposed } = (answer ?? {}) as Record<string, unknown>;
  const roles: readonly unknown[] = ['ingest', 'read', 'operate', 'admin'];
  return {
    login: login === 'off' ? 'off' : 'on',
    name: typeof name === 'string' ? name : null,
    role: roles.includes(role) ? (role as Role) : null,
    exposed: exposed === true,
  };
}
