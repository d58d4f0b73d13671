//! Products that people compute, with sizes.

use glassgrad::einsum::Einsum;

/// An einsum with sizes by letter: `("ij,jk->ik", "i9 j9 k5")`.
pub(crate) fn sized(notation: &str, sizes: &str) -> Einsum {
    let size = |name: char| {
        let entry =
            sizes.split(' ').find(|entry| entry.starts_with(name)).unwrap_or_else(|| panic!("no size of {name}"));
        entry[name.len_utf8()..].parse::<usize>().expect("a size")
    };
    let inputs = notation.split_once("->").expect("an arrow").0;
    let shapes: Vec<Vec<usize>> = inputs.split(',').map(|names| names.chars().map(size).collect()).collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(|shape| &shape[..]).collect();
    Einsum::parse(notation, &shapes).unwrap_or_else(|error| panic!("{error}"))
}

/// Thirty products that people compute: chains, networks, decompositions, derivatives, quantum chemistry.
pub(crate) const EXPRESSIONS: [(&str, &str); 30] = [
    ("ij,jk,kl->il", "i10 j1000 k5 l200"),
    ("ij,jk,k->i", "i300 j300 k300"),
    ("i,ij,j->", "i500 j500"),
    ("bi,ij,bj->b", "b64 i100 j100"),
    ("ir,jr,kr->ijk", "i30 j40 k50 r8"),
    ("abc,ai,bj,ck->ijk", "a4 b5 c6 i40 j50 k60"),
    ("ijk,ir,jr->kr", "i60 j70 k80 r10"),
    ("bqhd,bkhd,bkhe->bqhe", "b2 q64 k64 h4 d16 e16"),
    ("ij,kj,kl,ml->im", "i20 j300 k10 l300 m20"),
    ("pi,qa,pqrs,rj,sb->iajb", "p20 q20 r20 s20 i5 a15 j5 b15"),
    ("ijab,ijab,ij,ab->", "i8 j8 a20 b20"),
    ("ia,jb,iajb,ij->ab", "i10 j10 a30 b30"),
    ("ab,bc,cd,de,ef->af", "a30 b35 c15 d5 e10 f20"),
    ("ab,bc,cd,de,ef,fg->ag", "a30 b35 c15 d5 e10 f20 g25"),
    ("aib,bjc,ckd,dla->ijkl", "a6 b7 c8 d9 i5 j5 k5 l5"),
    ("ia,aib,ijc->bjc", "i8 a16 b12 j9 c10"),
    ("ab,bc,ca,a,b,c->", "a20 b30 c40"),
    ("nk,nl,kl,n->", "n1000 k20 l20"),
    ("ni,nj,n,ip,jq->pq", "n500 i30 j30 p4 q4"),
    ("abcd,efgh,ae,bf->cdgh", "a5 b6 c7 d8 e5 f6 g7 h8"),
    ("xia,xjb,xkc,yia,yjb,ykc->xy", "x30 y40 i3 a4 j3 b4 k3 c4"),
    ("ais,bit,sju,tjv,ukw,vkz->abwz", "a1 b1 s8 t8 u8 v8 w8 z8 i2 j2 k2"),
    ("abi,bcj,cdk,dei,efj,fak->", "a5 b6 c7 d5 e6 f7 i3 j4 k3"),
    ("abe,bcf,cdg,dah,ijeo,jkfp,klgq,lihr->opqr", "a3 b3 c3 d3 e3 f3 g3 h3 i3 j3 k3 l3 o2 p2 q2 r2"),
    ("ab,cd,bd,ce,ef,fa,eg->g", "a9 b8 c7 d6 e5 f4 g30"),
    ("i,j,ij,k,l,kl,ik->jl", "i20 j30 k40 l50"),
    ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", "a12 b40 c7 d33 e9 f50 g3 h21 i60 j8"),
    ("as,ast,btu,cuv,dvw,ewx,fxy,gyz,hz->abcdefgh", "a2 b2 c2 d2 e2 f2 g2 h2 s4 t8 u16 v16 w16 x8 y4 z2"),
    ("ab,bc,cd,de,ef,fa,ag,bh,ci,dj,ek->ghijk", "a4 b5 c6 d7 e8 f9 g3 h3 i3 j3 k3"),
    ("ab,acd,ef,gceh,idj,kfil,mg,nhkp,qjl,bm,nq,p->", "a3 b4 c5 d3 e4 f5 g3 h4 i5 j3 k4 l5 m3 n4 p5 q3"),
];
