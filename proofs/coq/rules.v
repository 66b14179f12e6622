(* The laws of the kernel of mha_sym, one lemma each, for all sizes.

   A term of the kernel is printed as an ordinary expression of mathcomp: a product of the terms a, b, c as
   a * (b * c), a sum over a position as a big sum over an ordinal.  [mulx] and [addx] of a list unfold to these, so
   that a law about lists is, by computation, the law about the printed terms.

   To check by hand (Debian 12: apt install coq libcoq-mathcomp-algebra):
       coqc -q -w none rules.v
   and the same for a file that "mha-sym prove NAME --coq FILE.v" has written, which holds a copy of this one.  The
   last line that coqc prints must be "Closed under the global context": then the theorem rests on nothing but the
   hypotheses that its Section declares. *)
From Coq Require Import BinNat.
From mathcomp Require Import all_ssreflect fingroup perm ssralg ssrnum order ssrint.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ------------------------------------------------------------------------------------------------ positions *)
(* The position r * d + j of a product of two axes, and its two parts. *)
Section Positions.
Variables h d : nat.

Lemma pair_proof (r : 'I_h) (j : 'I_d) : (r * d + j < h * d)%N.
Proof.
apply: (@leq_trans (r.+1 * d)); last by rewrite leq_mul2r ltn_ord orbT.
by rewrite mulSn addnC ltn_add2r ltn_ord.
Qed.
Definition pair_at (r : 'I_h) (j : 'I_d) : 'I_(h * d) := Ordinal (pair_proof r j).

Lemma inner_gt0 (c : 'I_(h * d)) : (0 < d)%N.
Proof. by case: d c => // c; case: c => m; rewrite muln0. Qed.
Lemma outer_proof (c : 'I_(h * d)) : (c %/ d < h)%N.
Proof. by rewrite ltn_divLR ?ltn_ord // (inner_gt0 c). Qed.
Lemma inner_proof (c : 'I_(h * d)) : (c %% d < d)%N.
Proof. by rewrite ltn_mod (inner_gt0 c). Qed.
Definition outer c : 'I_h := Ordinal (outer_proof c).
Definition inner c : 'I_d := Ordinal (inner_proof c).

Lemma outer_pair r j : outer (pair_at r j) = r.
Proof.
apply: val_inj => /=; have d0 := inner_gt0 (pair_at r j).
by rewrite divnMDl // divn_small ?addn0 // ltn_ord.
Qed.
Lemma inner_pair r j : inner (pair_at r j) = j.
Proof. by apply: val_inj => /=; rewrite modnMDl modn_small // ltn_ord. Qed.
Lemma pair_parts c : pair_at (outer c) (inner c) = c.
Proof. by apply: val_inj => /=; rewrite -divn_eq. Qed.
Lemma pair_eq (r r' : 'I_h) (j j' : 'I_d) :
  (pair_at r j == pair_at r' j' :> nat) = (r == r' :> nat) && (j == j' :> nat).
Proof.
apply/idP/andP => [/eqP/val_inj E|[/eqP/val_inj -> /eqP/val_inj ->] //].
by split; apply/eqP; congr val; [rewrite -(outer_pair r j) E outer_pair | rewrite -(inner_pair r j) E inner_pair].
Qed.
End Positions.

(* the simplifications that the kernel makes whenever it puts a position for a variable *)
Definition positions := (@outer_pair, @inner_pair, @pair_parts, @permK, @permKV).

(* --------------------------------------------------------------------------------------- sums and products *)
Section Rules.
Variable R : realFieldType.
Implicit Types (a b : R) (l r : seq R).

Fixpoint mulx l : R := if l is a :: l' then (if l' is [::] then a else a * mulx l') else 1.
Fixpoint addx l : R := if l is a :: l' then (if l' is [::] then a else a + addx l') else 0.

Lemma mulx_cons a l : mulx (a :: l) = a * mulx l.
Proof. by case: l => //=; rewrite mulr1. Qed.
Lemma addx_cons a l : addx (a :: l) = a + addx l.
Proof. by case: l => //=; rewrite addr0. Qed.
Lemma mulx_cat l r : mulx (l ++ r) = mulx l * mulx r.
Proof. by elim: l => [|a l IH]; rewrite ?mul1r // cat_cons !mulx_cons IH mulrA. Qed.
Lemma mulx_at l a r : mulx (l ++ a :: r) = a * (mulx l * mulx r).
Proof. by rewrite mulx_cat mulx_cons mulrCA. Qed.

(* Where two terms agree outside of one place, they are equal if they are equal there. *)
Lemma in_factor (x y : R) b : x = y -> x * b = y * b. Proof. by move->. Qed.
Lemma in_factors a (x y : R) : x = y -> a * x = a * y. Proof. by move->. Qed.
Lemma in_addend (x y : R) b : x = y -> x + b = y + b. Proof. by move->. Qed.
Lemma in_addends a (x y : R) : x = y -> a + x = a + y. Proof. by move->. Qed.
Lemma in_inverse (x y : R) : x = y -> x^-1 = y^-1. Proof. by move->. Qed.
Lemma in_function (f : R -> R) (x y : R) : x = y -> f x = f y. Proof. by move->. Qed.
Lemma in_sum n (F G : 'I_n -> R) : (forall i, F i = G i) -> \sum_(i < n) F i = \sum_(i < n) G i.
Proof. by move=> E; apply: eq_bigr => i _; apply: E. Qed.

(* The greatest of finitely many values; 0 if there are none. *)
Definition greatest n (F : 'I_n -> R) : R :=
  if [seq F i | i <- enum 'I_n] is x :: s then foldr Num.max x s else 0.
Lemma in_greatest n (F G : 'I_n -> R) : (forall i, F i = G i) -> greatest F = greatest G.
Proof. by move=> E; rewrite /greatest (eq_map E). Qed.

End Rules.

(* -------------------------------------------------------- arithmetic: order, grouping, numbers, powers *)
(* A leaf of a product or sum: any term, a rational number (its sign, and binary numbers above and below), or a
   power of a root of a size. *)
Inductive leaf := Any of nat | Number of bool & N & N | Power of nat & nat & int.
Inductive tree := Unit | Leaf of leaf | Node of tree & tree.
Fixpoint leaves t : seq leaf :=
  match t with Unit => [::] | Leaf x => [:: x] | Node s t => leaves s ++ leaves t end.

(* A rational number while it is computed: what is added, what is taken away, and what is below. *)
Inductive fraction := Fraction of N & N & N.
Definition as_fraction (minus : bool) (p q : N) := if minus then Fraction 0 p q else Fraction p 0 q.
Definition times x y :=
  let: Fraction a b q := x in let: Fraction c d r := y in
  Fraction (N.add (N.mul a c) (N.mul b d)) (N.add (N.mul a d) (N.mul b c)) (N.mul q r).
Definition plus x y :=
  let: Fraction a b q := x in let: Fraction c d r := y in
  Fraction (N.add (N.mul a r) (N.mul c q)) (N.add (N.mul b r) (N.mul d q)) (N.mul q r).
Definition same_fraction x y :=
  let: Fraction a b q := x in let: Fraction c d r := y in
  N.eqb (N.add (N.mul a r) (N.mul d q)) (N.add (N.mul c q) (N.mul b r)).
Definition proper x := let: Fraction _ _ q := x in ~~ N.eqb q 0.
Definition nothing x := let: Fraction a b _ := x in N.eqb a b.

(* A large number is written in binary and not counted out; what it is, only [binaryE] says. *)
Definition binary (n : N) : nat := locked nat_of_bin n.
Arguments binary n%num.
Lemma binaryE n : binary n = nat_of_bin n. Proof. by rewrite /binary -lock. Qed.
Definition numeral (n : N) : nat := if N.ltb n 100 then nat_of_bin n else binary n.
Lemma numeralE n : numeral n = nat_of_bin n. Proof. by rewrite /numeral; case: ifP => // _; apply: binaryE. Qed.
Lemma below (i n : N) : N.ltb i n -> (numeral i < numeral n)%N.
Proof.
rewrite !numeralE => /N.ltb_spec0 lt; have -> : n = N.add i (N.sub n i).
  by rewrite N.add_comm N.sub_add //; apply: N.lt_le_incl.
rewrite nat_of_add_bin -addn1 leq_add2l lt0n; apply/eqP => e.
have := nat_of_binK (N.sub n i); rewrite e /= => /esym/N.sub_0_le le.
by case: (N.lt_irrefl i); apply: N.lt_le_trans lt le.
Qed.

Section Arithmetic.
Variable R : realFieldType.

Definition number (minus : bool) (p q : N) : R :=
  let a := (numeral p)%:R in let b := if minus then - a else a in
  if N.eqb q 1 then b else b / (numeral q)%:R.
Definition fraction_value x : R :=
  let: Fraction a b q := x in ((nat_of_bin a)%:R - (nat_of_bin b)%:R) / (nat_of_bin q)%:R.

Lemma numberE minus p q : number minus p q = fraction_value (as_fraction minus p q).
Proof.
rewrite /number !numeralE; have -> : fraction_value (as_fraction minus p q) =
  (if minus then - (nat_of_bin p)%:R else (nat_of_bin p)%:R) / (nat_of_bin q)%:R.
  by case: minus; rewrite /= ?sub0r ?subr0.
by case: (N.eqb_spec q 1) => // ->; rewrite divr1.
Qed.
Lemma properE a b q : proper (Fraction a b q) -> (nat_of_bin q)%:R != 0 :> R.
Proof.
rewrite pnatr_eq0 /=; case: (N.eqb_spec q 0) => // q0 _; apply/eqP => e; apply: q0.
by rewrite -[q]nat_of_binK e.
Qed.
Lemma timesE x y : fraction_value (times x y) = fraction_value x * fraction_value y.
Proof.
case: x y => [a b q] [c d r] /=; rewrite !nat_of_add_bin !nat_of_mul_bin !natrD !natrM invfM mulrACA.
by congr (_ * _); rewrite mulrBl !mulrBr opprB addrACA -opprD.
Qed.
Lemma plusE x y : proper x -> proper y -> fraction_value (plus x y) = fraction_value x + fraction_value y.
Proof.
case: x y => [a b q] [c d r] /properE q0 /properE r0.
rewrite /= addf_div // !nat_of_add_bin !nat_of_mul_bin !natrD !natrM; congr (_ / _).
by rewrite !mulrBl addrACA -opprD.
Qed.
Lemma same_fractionE x y : proper x -> proper y -> same_fraction x y -> fraction_value x = fraction_value y.
Proof.
case: x y => [a b q] [c d r] /properE q0 /properE r0 /N.eqb_spec e; apply/eqP; rewrite eqr_div // !mulrBl.
rewrite subr_eq addrAC eq_sym subr_eq -!natrM -!natrD -!nat_of_mul_bin -!nat_of_add_bin e.
by [].
Qed.
Lemma nothingE x : nothing x -> fraction_value x = 0.
Proof. by case: x => [a b q] /N.eqb_spec /= ->; rewrite subrr mul0r. Qed.
Lemma proper_times x y : proper x -> proper y -> proper (times x y).
Proof.
case: x y => [a b q] [c d r] /=; case: (N.eqb_spec q 0) => // q0 _; case: (N.eqb_spec r 0) => // r0 _.
by case: (N.eqb_spec (q * r) 0) => // /N.eq_mul_0 [].
Qed.
Lemma proper_plus x y : proper x -> proper y -> proper (plus x y).
Proof. by case: x y => [a b q] [c d r] p0 q0; apply: (@proper_times (Fraction a b q) (Fraction c d r)). Qed.

Variables terms roots : seq R.
Definition value (x : leaf) : R :=
  match x with
  | Any n => nth 1 terms n
  | Number minus p q => number minus p q
  | Power k m e => (nth 1 roots k ^+ m) ^ e
  end.
Fixpoint multiplied t : R :=
  match t with Unit => 1 | Leaf x => value x | Node s t => multiplied s * multiplied t end.
Fixpoint added t : R :=
  match t with Unit => 0 | Leaf x => value x | Node s t => added s + added t end.

Definition names (xs : seq leaf) : seq nat := pmap (fun x => if x is Any n then Some n else None) xs.
Definition numbers (xs : seq leaf) : seq fraction :=
  pmap (fun x => if x is Number minus p q then Some (as_fraction minus p q) else None) xs.
Definition exponent k (xs : seq leaf) : int :=
  foldr (fun x e => if x is Power j m f then (if k == j then (m%:Z * f + e)%R else e) else e) 0 xs.
Definition coefficient xs := foldr times (Fraction 1 0 1) (numbers xs).
Definition total xs := foldr plus (Fraction 0 0 1) (numbers xs).
Definition plain := all (fun x => if x is Power _ _ _ then false else true).

Definition same_product (s t : tree) : bool :=
  let xs := leaves s in let ys := leaves t in
  [&& all proper (numbers xs), all proper (numbers ys), same_fraction (coefficient xs) (coefficient ys) &
    nothing (coefficient xs) ||
    perm_eq (names xs) (names ys) && all (fun k => exponent k xs == exponent k ys) (iota 0 (size roots))].
Definition same_sum (s t : tree) : bool :=
  let xs := leaves s in let ys := leaves t in
  [&& all proper (numbers xs), all proper (numbers ys), plain xs, plain ys, perm_eq (names xs) (names ys) &
    same_fraction (total xs) (total ys)].

Lemma multipliedE t : multiplied t = \prod_(x <- leaves t) value x.
Proof. by elim: t => [|x|s IHs t IHt] /=; rewrite ?big_nil ?big_seq1 // IHs IHt big_cat. Qed.
Lemma addedE t : added t = \sum_(x <- leaves t) value x.
Proof. by elim: t => [|x|s IHs t IHt] /=; rewrite ?big_nil ?big_seq1 // IHs IHt big_cat. Qed.

Lemma coefficient_proper xs : all proper (numbers xs) -> proper (coefficient xs).
Proof.
rewrite /coefficient; elim: (numbers xs) => //= x l IH /andP[x0 /IH l0].
exact: proper_times.
Qed.
Lemma total_proper xs : all proper (numbers xs) -> proper (total xs).
Proof. by rewrite /total; elim: (numbers xs) => //= x l IH /andP[x0 /IH l0]; apply: proper_plus. Qed.

Hypothesis roots0 : all (fun r => r != 0) roots.
Let root0 k : nth 1 roots k != 0.
Proof.
case: (ltnP k (size roots)) => [lt|le]; last by rewrite nth_default ?oner_neq0.
by move/(all_nthP 1): roots0; apply.
Qed.
Let powers xs := \prod_(k < size roots) nth 1 roots k ^ exponent k xs.

Lemma powers_cons j m e xs : powers (Power j m e :: xs) = (nth 1 roots j ^+ m) ^ e * powers xs.
Proof.
have E : (nth 1 roots j ^+ m) ^ e = nth 1 roots j ^ (m%:Z * e) by rewrite exprnP exprz_exp.
rewrite E /powers /=; case: (ltnP j (size roots)) => [lt|le].
  rewrite (bigD1 (Ordinal lt)) //= [X in _ = _ * X](bigD1 (Ordinal lt)) //= eqxx.
  rewrite expfzDr ?root0 // -mulrA; congr (_ * (_ * _)); apply: eq_bigr => k nk.
  by rewrite ifN //; apply: contra nk => /eqP kj; apply/eqP/val_inj.
rewrite nth_default // exp1rz mul1r; apply: eq_bigr => k _.
by rewrite ifN //; apply/eqP => kj; have := ltn_ord k; rewrite kj ltnNge le.
Qed.

Lemma productE xs :
  \prod_(x <- xs) value x = fraction_value (coefficient xs) * (powers xs * \prod_(n <- names xs) nth 1 terms n).
Proof.
elim: xs => [|x xs IH].
  by rewrite !big_nil /= divr1 subr0 mul1r mulr1 /powers big1 // => k _; rewrite expr0z.
rewrite big_cons {}IH; case: x => [n|minus p q|j m e].
- rewrite -[powers (_ :: _)]/(powers xs) -[coefficient (_ :: _)]/(coefficient xs).
  by rewrite [names _]/= big_cons [LHS]mulrCA; congr (_ * _); rewrite mulrCA.
- rewrite -[powers (_ :: _)]/(powers xs) -[names (_ :: _)]/(names xs) [value _]/= numberE [LHS]mulrA -timesE.
  by [].
- rewrite -[coefficient (_ :: _)]/(coefficient xs) -[names (_ :: _)]/(names xs) powers_cons.
  by rewrite [value _]/= mulrCA !mulrA.
Qed.

Lemma arithmetic_product s t : same_product s t -> multiplied s = multiplied t.
Proof.
rewrite /same_product !multipliedE; set xs := leaves s; set ys := leaves t.
case/and4P=> /coefficient_proper px /coefficient_proper py same rest; rewrite !productE.
have E := same_fractionE px py same.
case/orP: rest => [/nothingE u0|/andP[perm ex]]; first by rewrite -E u0 !mul0r.
rewrite E (perm_big _ perm); congr (_ * (_ * _)); apply: eq_bigr => k _.
by move/allP: ex => /(_ (nat_of_ord k)); rewrite mem_iota /= add0n ltn_ord => /(_ isT)/eqP->.
Qed.

Lemma sumE xs : all proper (numbers xs) -> plain xs ->
  \sum_(x <- xs) value x = \sum_(n <- names xs) nth 1 terms n + fraction_value (total xs).
Proof.
elim: xs => [|[n|minus p q|j m e] xs IH] //.
- by rewrite !big_nil /= subrr mul0r addr0.
- by move=> px ox; rewrite [names _]/= !big_cons (IH px ox) addrA.
case/andP=> x0 px ox; rewrite big_cons (IH px ox) [value _]/= numberE addrCA -plusE //.
exact: total_proper.
Qed.

Lemma arithmetic_sum s t : same_sum s t -> added s = added t.
Proof.
rewrite /same_sum !addedE; case/and5P=> px py ox oy /andP[perm same].
rewrite (sumE px ox) (sumE py oy) (perm_big _ perm); congr (_ + _).
exact: same_fractionE (total_proper px) (total_proper py) same.
Qed.
End Arithmetic.

(* ---------------------------------------------------------------------------------- the laws, by their names *)
Section Laws.
Variable R : realFieldType.
Implicit Types (a b c x y : R) (l r s : seq R).

Lemma distribute l s r : mulx (l ++ addx s :: r) = addx [seq mulx (l ++ y :: r) | y <- s].
Proof.
rewrite mulx_at; elim: s => [|y s IH]; first by rewrite mul0r.
by rewrite addx_cons map_cons addx_cons mulrDl IH mulx_at.
Qed.

Lemma take_out a s : addx [seq a * y | y <- s] = a * addx s.
Proof. by elim: s => [|y s IH]; [rewrite mulr0 | rewrite map_cons !addx_cons mulrDr IH]. Qed.

Lemma collect a b c x y z : x = a * z -> y = b * z -> a + b = c -> x + y = c * z.
Proof. by move=> -> -> <-; rewrite mulrDl. Qed.

Lemma pull l n (F : 'I_n -> R) r : mulx (l ++ (\sum_(i < n) F i) :: r) = \sum_(i < n) mulx (l ++ F i :: r).
Proof. by rewrite mulx_at mulr_suml; apply: eq_bigr => i _; rewrite mulx_at. Qed.

Lemma factor a n (F : 'I_n -> R) : \sum_(i < n) (a * F i) = a * \sum_(i < n) F i.
Proof. by rewrite mulr_sumr. Qed.

Lemma exchange m n (F : 'I_m -> 'I_n -> R) :
  \sum_(i < m) \sum_(j < n) F i j = \sum_(j < n) \sum_(i < m) F i j.
Proof. exact: exchange_big. Qed.

Lemma sum_of_sum n (s : seq ('I_n -> R)) :
  \sum_(i < n) addx [seq F i | F : 'I_n -> R <- s] = addx [seq \sum_(i < n) F i | F : 'I_n -> R <- s].
Proof.
elim: s => [|F s IH]; first by rewrite big1.
by rewrite map_cons addx_cons -IH -big_split; apply: eq_bigr => i _; apply: addx_cons.
Qed.

Lemma constant_sum n a b : n%:R = b -> \sum_(i < n) a = b * a.
Proof. by move=> <-; rewrite sumr_const card_ord mulr_natl. Qed.

Lemma split_sum m n (F : 'I_(m * n) -> R) : \sum_(c < m * n) F c = \sum_(r < m) \sum_(j < n) F (pair_at r j).
Proof.
rewrite pair_bigA /= (reindex (fun p : 'I_m * 'I_n => pair_at p.1 p.2)) //=.
exists (fun k => (outer k, inner k)) => [[r j] _|k _] /=; last by rewrite pair_parts.
by rewrite outer_pair inner_pair.
Qed.

Lemma enumerate_sum n (F : 'I_n -> R) (s : seq 'I_n) :
  map val s = iota 0 n -> \sum_(i < n) F i = addx [seq F i | i <- s].
Proof.
rewrite -val_enum_ord => /(inj_map val_inj) ->; rewrite -big_enum /=.
by elim: (enum _) => [|i s' IH]; [rewrite big_nil | rewrite big_cons map_cons addx_cons IH].
Qed.

Lemma delta n (e : 'I_n) (l r : seq ('I_n -> R)) :
  \sum_(i < n) mulx ([seq F i | F : 'I_n -> R <- l] ++ (i == e :> nat)%:R :: [seq F i | F : 'I_n -> R <- r])
  = mulx ([seq F e | F : 'I_n -> R <- l] ++ [seq F e | F : 'I_n -> R <- r]).
Proof.
rewrite (bigD1 e) //= eqxx mulx_at mul1r mulx_cat big1 ?addr0 // => i ne.
by rewrite mulx_at (_ : (_ == _) = false) ?mul0r //; apply: negbTE.
Qed.
Lemma delta_back n (e : 'I_n) (l r : seq ('I_n -> R)) :
  \sum_(i < n) mulx ([seq F i | F : 'I_n -> R <- l] ++ (e == i :> nat)%:R :: [seq F i | F : 'I_n -> R <- r])
  = mulx ([seq F e | F : 'I_n -> R <- l] ++ [seq F e | F : 'I_n -> R <- r]).
Proof. by rewrite -delta; apply: eq_bigr => i _; rewrite eq_sym. Qed.

Lemma reindex_sum n (p : 'S_n) (F : 'I_n -> R) : \sum_(i < n) F i = \sum_(i < n) F (p i).
Proof. exact: (reindex_inj (@perm_inj _ p)). Qed.

(* ------------------------------------------------------------------------------------------ inverses, signs *)
Lemma inverse_of_inverse x : x^-1^-1 = x. Proof. exact: invrK. Qed.
Lemma inverse_of_number x y : x * y = 1 -> x^-1 = y.
Proof.
move=> xy; have x0 : x != 0 by apply/eqP => x0; move/eqP: xy; rewrite x0 mul0r eq_sym oner_eq0.
by apply: (mulfI x0); rewrite mulfV.
Qed.
Lemma inverse_of_product l : (mulx l)^-1 = mulx [seq x^-1 | x <- l].
Proof. by elim: l => [|x l IH]; [rewrite invr1 | rewrite map_cons !mulx_cons invfM IH]. Qed.
Lemma cancel x y l : x = y -> 0 < x -> mulx (x :: y^-1 :: l) = mulx l.
Proof. by move=> <- x0; rewrite !mulx_cons mulrA mulfV ?mul1r // gt_eqF. Qed.

Lemma positive_number p : 0 < p.+1%:R :> R. Proof. exact: ltr0Sn. Qed.
Lemma positive_binary p : 0 < (binary (Npos p))%:R :> R.
Proof. by rewrite binaryE ltr0n lt0n; apply/eqP => e; have := nat_of_binK (Npos p); rewrite e. Qed.
Lemma positive_size n : (0 < n)%N -> 0 < n%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma positive_pair m n : (0 < m)%N -> (0 < n)%N -> (0 < m * n)%N. Proof. by rewrite muln_gt0 => -> ->. Qed.
Lemma positive_joined m n : (0 < m)%N -> (0 < m + n)%N. Proof. by rewrite addn_gt0 => ->. Qed.
Lemma positive_inverse x : 0 < x -> 0 < x^-1. Proof. by rewrite invr_gt0. Qed.
Lemma positive_power x n : 0 < x -> 0 < x ^+ n. Proof. exact: exprn_gt0. Qed.
Lemma positive_product x y : 0 < x -> 0 < y -> 0 < x * y. Proof. exact: mulr_gt0. Qed.
Lemma positive_addition x y : 0 < x -> 0 < y -> 0 < x + y. Proof. exact: addr_gt0. Qed.
Lemma positive_sum n (F : 'I_n -> R) : (0 < n)%N -> (forall i, 0 < F i) -> 0 < \sum_(i < n) F i.
Proof.
move=> n0 F0; rewrite (bigD1 (Ordinal n0)) //=; apply: ltr_paddr => //.
by apply: sumr_ge0 => i _; apply: ltW.
Qed.
Lemma positive_same x y : x = y -> 0 < y -> 0 < x. Proof. by move->. Qed.

(* Some bracket of the row is 1, and the weights are positive. *)
Lemma positive_row n (K : 'I_n -> bool) (F : 'I_n -> R) :
  0 < \sum_(i < n) (K i)%:R :> R -> (forall i, 0 < F i) -> 0 < \sum_(i < n) ((K i)%:R * F i).
Proof.
move=> row F0; have [i Ki|none] := pickP K; last by rewrite big1 ?ltxx // in row => i _; rewrite none.
rewrite (bigD1 i) //= Ki mul1r; apply: ltr_paddr => //.
by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?ler0n // ltW.
Qed.
Lemma positive_first n (K : 'I_n -> bool) (F : 'I_n -> R) (n0 : (0 < n)%N) :
  K (Ordinal n0) -> (forall i, 0 < F i) -> 0 < \sum_(i < n) ((K i)%:R * F i).
Proof.
move=> K0 F0; apply: positive_row => //; rewrite (bigD1 (Ordinal n0)) //= K0.
by apply: ltr_paddr; rewrite ?ltr01 // sumr_ge0 // => i _; apply: ler0n.
Qed.

(* ------------------------------------------------------------------------------------------------- brackets *)
(* Where the bracket is 0, both sides are 0; where it is 1, it may be used. *)
Lemma guard (p : bool) x y l : (p -> x = y) -> mulx (p%:R :: x :: l) = mulx (p%:R :: y :: l).
Proof. by rewrite !mulx_cons; case: p => [-> //|]; rewrite !mul0r. Qed.
Lemma guarded (p : bool) : p -> p%:R = 1 :> R. Proof. by move->. Qed.
Lemma spread (p : bool) x : p -> x = p%:R * x. Proof. by move->; rewrite mul1r. Qed.

Lemma guard_by_two (p q : bool) x y l :
  (p -> q -> x = y) -> mulx (p%:R :: q%:R :: x :: l) = mulx (p%:R :: q%:R :: y :: l).
Proof. by rewrite !mulx_cons; case: p q => [] [] E; rewrite ?mul1r ?mul0r ?E. Qed.
Lemma ordered (i j k m n : nat) : (i <= m + j)%N -> (j <= n + k)%N -> (i <= (m + n) + k)%N.
Proof. by move=> ij jk; apply: (leq_trans ij); rewrite -addnA leq_add2l. Qed.

Lemma both (p q : bool) : (p && q)%:R = p%:R * q%:R :> R.
Proof. by case: p; rewrite ?mul1r ?mul0r. Qed.
Lemma compare_true (p : bool) : p -> p%:R = 1 :> R. Proof. by move->. Qed.
Lemma compare_false (p : bool) : ~~ p -> p%:R = 0 :> R. Proof. by move/negbTE->. Qed.
Lemma compare_pair m n (r r' : 'I_m) (j j' : 'I_n) :
  (pair_at r j == pair_at r' j' :> nat)%:R = (r == r' :> nat)%:R * (j == j' :> nat)%:R :> R.
Proof. by rewrite pair_eq; case: (_ == _); rewrite ?mul1r ?mul0r. Qed.
Lemma compare_permuted n (p : 'S_n) (i j : 'I_n) : (p i == p j :> nat)%:R = (i == j :> nat)%:R :> R.
Proof. by rewrite (_ : (p i == p j :> nat) = (i == j :> nat)) //; apply: (inj_eq (@perm_inj _ p)). Qed.
Lemma compare_left m n (i j : 'I_m) : (lshift n i == lshift n j :> nat)%:R = (i == j :> nat)%:R :> R.
Proof. by []. Qed.
Lemma compare_right m n (i j : 'I_n) : (rshift m i == rshift m j :> nat)%:R = (i == j :> nat)%:R :> R.
Proof. by rewrite /= eqn_add2l. Qed.
Lemma compare_apart m n (i : 'I_m) (j : 'I_n) : (lshift n i == rshift m j :> nat)%:R = 0 :> R.
Proof. by rewrite (_ : (_ == _) = false) //=; apply: negbTE; rewrite neq_ltn (leq_trans (ltn_ord i)) ?leq_addr. Qed.
Lemma compare_apart_back m n (i : 'I_n) (j : 'I_m) : (rshift m i == lshift n j :> nat)%:R = 0 :> R.
Proof. by rewrite eq_sym compare_apart. Qed.
End Laws.

(* -------------------------------------------------------------------------------------------- exponentials *)
Section Exponential.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis exp_add : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_positive : forall x, 0 < exp x.

Lemma exp_of_zero : exp 0 = 1.
Proof. by apply: (mulfI (lt0r_neq0 (exp_positive 0))); rewrite -exp_add addr0 mulr1. Qed.
Lemma exp_of_sum (s : seq R) : exp (addx s) = mulx [seq exp x | x <- s].
Proof. by elim: s => [|x s IH]; [exact: exp_of_zero | rewrite map_cons addx_cons mulx_cons exp_add IH]. Qed.
Lemma exp_product (x y : R) (l : seq R) : mulx (exp x :: exp y :: l) = mulx (rcons l (exp (x + y))).
Proof. by rewrite -cats1 mulx_cat !mulx_cons exp_add mulr1 mulrA mulrC. Qed.
Lemma inverse_of_exp (x : R) : (exp x)^-1 = exp (- 1 * x).
Proof.
have x0 := lt0r_neq0 (exp_positive x); apply: (mulfI x0).
by rewrite mulfV // -exp_add mulN1r addrN exp_of_zero.
Qed.
End Exponential.
