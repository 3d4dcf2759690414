// Who uses the page, and what they may see. Nothing here keeps state; docs/access.md describes the roles.

export type Role = 'ingest' | 'read' | 'auditor' | 'node' | 'operate' | 'admin';

/** The answer of `/api/v1/me`. */
export interface Me {
  /** `off`: no login is needed. */
  login: 'off' | 'on';
  name: string | null;
  role: Role | null;
  /** Everybody who reaches the server may do everything. */
  exposed: boolean;
  /** Sees some of the lines only, or not all of their fields; calls that show what was made of all lines are refused. */
  restricted: boolean;
  /** Whether users can log in with a password. */
  passwords: boolean;
  /** Providers by which users can log in. */
  providers: readonly string[];
}

/** The assumption if the server does not say: an older one, or one that cannot be reached. */
export const ANYBODY: Me = { login: 'off', name: null, role: 'admin', exposed: false, restricted: false, passwords: true, providers: [] };

/** What the page shows: a login, a refusal, or the views. */
export function screenOf(me: Me): 'login' | 'nothing' | 'views' {
  if (me.role === null) return 'login';
  return me.role === 'ingest' ? 'nothing' : 'views';
}

/** Whether the user may see and cancel queries of others. */
export function seesAllQueries(me: Me): boolean {
  return me.role === 'operate' || me.role === 'admin';
}

/** Whether the user may test, save, delete, switch and rerun programs. */
export function mayOperate(me: Me): boolean {
  return me.role === 'operate' || me.role === 'admin';
}

/** Whether the user may change users and tokens. */
export function mayAdminister(me: Me): boolean {
  return me.role === 'admin';
}

/** Whether the user may send lines. */
export function mayInsert(me: Me): boolean {
  return me.role === 'admin';
}

/** The user's name for the header; null if no login is needed. */
export function whoText(me: Me): string | null {
  return me.login === 'on' && me.name !== null ? `${me.name} (${me.role ?? 'no role'})` : null;
}

/** The address that begins a login by a provider, which leads back to `to`, an address of the page. */
export function loginBy(provider: string, to: string): string {
  return `/api/v1/login/oidc/${encodeURIComponent(provider)}?${new URLSearchParams({ to }).toString()}`;
}

/** What is known of a user who is no longer logged in. */
export function loggedOut(me: Me | null): Me {
  return { ...(me ?? ANYBODY), login: 'on', name: null, role: null, exposed: false, restricted: false };
}

/**
 * Whether somebody else logged in than the user who used the page before. What the page keeps, such as unsaved notebooks
 * with their rows, is of lines that the other one may not see.
 */
export function isSomebodyElse(before: string | null, me: Me): boolean {
  return before !== null && me.name !== before;
}

/** Parses an answer of `/api/v1/me`; anything else counts as not logged in. */
export function meOf(answer: unknown): Me {
  const { login, name, role, exposed, restricted, passwords, providers } = (answer ?? {}) as Record<string, unknown>;
  const roles: readonly unknown[] = ['ingest', 'read', 'auditor', 'node', 'operate', 'admin'];
  return {
    login: login === 'off' ? 'off' : 'on',
    name: typeof name === 'string' ? name : null,
    role: roles.includes(role) ? (role as Role) : null,
    exposed: exposed === true,
    restricted: restricted === true,
    passwords: passwords !== false,
    providers: Array.isArray(providers) ? providers.filter((one) => typeof one === 'string') : [],
  };
}
